import RelayCore
import RelayMetrics
import RelayWork
import Synchronization

/// Decides for which accounts a peer may speak (docs/federation.md, "Trust: for whom a peer may speak").
///
/// A peer may not speak for accounts of ours. It may not speak for accounts that another peer lists, unless it has
/// listed them for longer: listing a number as well wins nothing. A verdict on a number is remembered for a minute,
/// so that a conversation costs the store nothing.
final class SourceCheck: Sendable {
  private let directory: any DirectoryStore
  private let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool
  private let verdicts = Mutex(VerdictCache())
  private let refused = PeerCounters(RelayMetric.crossings.sourcesRefused)
  private let contested = PeerCounters(RelayMetric.crossings.sourcesContested)

  init(
    directory: any DirectoryStore,
    isLocalAccount: @escaping @Sendable (AccountNumber) async throws(Problem) -> Bool
  ) {
    self.directory = directory
    self.isLocalAccount = isLocalAccount
  }

  /// - Throws: `.sourceRefused`, which is counted; `.unavailable`.
  func demand(_ source: AccountNumber, from peer: RelayName) async throws(Problem) {
    guard try await !isLocalAccount(source) else { throw refusal(of: peer) }
    switch try await verdict(on: source, from: peer) {
    case .allowed: return
    case .refused: throw refusal(of: peer)
    case .contested:
      contested.add(of: peer)
      throw refusal(of: peer)
    }
  }

  /// Peers have come or gone: who may speak for whom is asked anew.
  func peersChanged() { verdicts.withLock { $0.removeAll() } }

  private func refusal(of peer: RelayName) -> Problem {
    refused.add(of: peer)
    return Problem(.sourceRefused)
  }

  private func verdict(
    on source: AccountNumber, from peer: RelayName
  ) async throws(Problem) -> VerdictCache.Verdict {
    let (known, generation) = verdicts.withLock { ($0.find(source, peer, at: .now), $0.generation) }
    if let known { return known }
    let token = ContactToken(of: source)
    let claimants = try await storing { () throws(StoreError) in try await directory.claimants(of: token) }
    let verdict: VerdictCache.Verdict =
      if claimants.isEmpty || claimants.first == peer {
        .allowed
      } else {
        claimants.contains(peer) ? .contested : .refused
      }
    verdicts.withLock { $0.remember(source, peer, verdict, from: generation, at: .now) }
    return verdict
  }
}

/// The latest verdicts on sources, bounded in number: the older half is forgotten when it is full.
struct VerdictCache {
  enum Verdict {
    case allowed
    /// Others list the number.
    case refused
    /// So does this peer, but another has for longer.
    case contested
  }
  private struct Key: Hashable {
    let source: AccountNumber
    let peer: RelayName
  }
  private struct Entry {
    let verdict: Verdict
    let end: ContinuousClock.Instant
  }

  private var entries: TwoGenerations<Key, Entry>
  /// Rises when everything is forgotten: what was asked before is not remembered after.
  private(set) var generation = 0

  static let allowedLife = Duration.seconds(60)
  /// A number that moves from one peer to another is refused for as long as the former one lists it.
  static let refusedLife = Duration.seconds(2)

  /// - Parameter max: 2 or more; the default takes some 20 MB.
  init(max: Int = 100_000) { entries = TwoGenerations(capacity: max) }

  var count: Int { entries.count }

  /// - Returns: nil when it is not known.
  mutating func find(_ source: AccountNumber, _ peer: RelayName, at now: ContinuousClock.Instant) -> Verdict? {
    let key = Key(source: source, peer: peer)
    if let entry = entries.young[key] { return now < entry.end ? entry.verdict : nil }
    guard let entry = entries.old[key], now < entry.end else { return nil }
    entries.insert(entry, for: key)
    return entry.verdict
  }

  /// - Parameter generation: what it was when the question was asked.
  mutating func remember(
    _ source: AccountNumber, _ peer: RelayName, _ verdict: Verdict, from generation: Int,
    at now: ContinuousClock.Instant
  ) {
    guard generation == self.generation else { return }
    let life = verdict == .allowed ? Self.allowedLife : Self.refusedLife
    entries.insert(Entry(verdict: verdict, end: now + life), for: Key(source: source, peer: peer))
  }

  mutating func removeAll() {
    entries.removeAll()
    generation += 1
  }
}
