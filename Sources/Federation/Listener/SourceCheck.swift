import Crypto
import RelayCore
import Synchronization

/// Says for whom a peer may speak (docs/federation.md, "Trust: for whom a peer may speak").
///
/// Not for accounts of ours, and not for those that other peers list and it does not. Who lists a number is remembered
/// for a minute, so that a conversation costs the store nothing.
final class SourceCheck: Sendable {
  private let directory: any DirectoryStore
  private let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool
  private let verdicts = Mutex(VerdictCache())
  private let refused = PeerCounters("relay_peer_sources_refused_total")

  init(
    directory: any DirectoryStore,
    isLocalAccount: @escaping @Sendable (AccountNumber) async throws(Problem) -> Bool
  ) {
    self.directory = directory
    self.isLocalAccount = isLocalAccount
  }

  /// - Throws: `.sourceRefused`, which is counted; `.unavailable`.
  func demand(_ source: AccountNumber, from peer: RelayName) async throws(Problem) {
    guard try await !isLocalAccount(source), try await isPeers(source, peer) else {
      refused.add(of: peer)
      throw Problem(.sourceRefused)
    }
  }

  /// Peers have come or gone: who may speak for whom is asked anew.
  func peersChanged() { verdicts.withLock { $0.removeAll() } }

  private func isPeers(_ source: AccountNumber, _ peer: RelayName) async throws(Problem) -> Bool {
    let (known, generation) = verdicts.withLock { ($0.find(source, peer, at: .now), $0.generation) }
    if let known { return known }
    let token = Self.token(of: source)
    let claimants = try await storing { () throws(StoreError) in try await directory.claimants(of: token) }
    let isAllowed = claimants.isEmpty || claimants.contains(peer)
    verdicts.withLock { $0.remember(source, peer, isAllowed, from: generation, at: .now) }
    return isAllowed
  }

  /// Reference 2.1; a SHA-1 digest has 20 bytes, so its first 10 always make a token.
  private static func token(of number: AccountNumber) -> ContactToken {
    ContactToken(firstBytesOf: Array(Insecure.SHA1.hash(data: Array(number.e164.utf8))))
  }
}

/// What was found out about sources lately, bounded in number: the older half is forgotten when it is full.
struct VerdictCache {
  private struct Key: Hashable {
    let source: AccountNumber
    let peer: RelayName
  }
  private struct Verdict {
    let isAllowed: Bool
    let end: ContinuousClock.Instant
  }

  private var young: [Key: Verdict] = [:]
  private var old: [Key: Verdict] = [:]
  /// Rises when everything is forgotten: what was asked before is not remembered after.
  private(set) var generation = 0
  private let halfMax: Int

  static let allowedLife = Duration.seconds(60)
  /// A number that moves from one peer to another is refused for as long as its new one's listing has not come.
  static let refusedLife = Duration.seconds(2)

  /// - Parameter max: 2 or more; the default takes some 20 MB.
  init(max: Int = 100_000) { halfMax = Swift.max(1, max / 2) }

  var count: Int { young.count + old.count }

  /// - Returns: nil when it is not known.
  mutating func find(_ source: AccountNumber, _ peer: RelayName, at now: ContinuousClock.Instant) -> Bool? {
    let key = Key(source: source, peer: peer)
    if let verdict = young[key] { return now < verdict.end ? verdict.isAllowed : nil }
    guard let verdict = old[key], now < verdict.end else { return nil }
    insert(verdict, for: key)
    return verdict.isAllowed
  }

  /// - Parameter generation: what it was when the question was asked.
  mutating func remember(
    _ source: AccountNumber, _ peer: RelayName, _ isAllowed: Bool, from generation: Int,
    at now: ContinuousClock.Instant
  ) {
    guard generation == self.generation else { return }
    let life = isAllowed ? Self.allowedLife : Self.refusedLife
    insert(Verdict(isAllowed: isAllowed, end: now + life), for: Key(source: source, peer: peer))
  }

  mutating func removeAll() {
    young.removeAll()
    old.removeAll()
    generation += 1
  }

  private mutating func insert(_ verdict: Verdict, for key: Key) {
    if young.count >= halfMax, young[key] == nil {
      old = young
      young = [:]
    }
    young[key] = verdict
  }
}
