import Logging
import RelayCore
import RelayMetrics
import RelayWork
import Synchronization

/// The answers of peers about one token that they were asked for.
struct AskedContact: Sendable, Equatable {
  let token: ContactToken
  /// The peers that know the token, ascending.
  let claimants: [RelayName]
  /// Whether all that are asked have answered.
  let isWhole: Bool
}

/// Decides which peer has a contact that peers are asked for (docs/federation.md, "Whose a contact is").
///
/// The store remembers the first claimant, and so all processes do. From then on only that peer has the contact. If
/// no peer is remembered, a single claimant has the contact, and is remembered once all peers have answered. If
/// several claim it, none has it. A verdict is kept for ten seconds, so that look-ups that follow one another ask the
/// store once. A change of the account ends it sooner.
final class ClaimJudge: Sendable {
  private let store: any ContactClaimStore
  private let claimsMax: Int
  private let logger: Logger
  private let verdicts = Mutex(ClaimVerdicts())
  private let isFailing = Mutex(false)
  private let contested = PeerCounters(RelayMetric.contacts.claimsContested)
  private let refused = PeerCounters(RelayMetric.contacts.claimsRefused)

  /// - Parameter claimsMax: how many claims of one peer are remembered.
  init(store: any ContactClaimStore, claimsMax: Int, logger: Logger) {
    self.store = store
    self.claimsMax = claimsMax
    self.logger = logger
  }

  /// - Parameter contacts: each for a different token.
  /// - Returns: the owner of each contact that has an owner among its claimants. A contact has no owner here if the
  ///   store cannot tell.
  func owners(of contacts: [AskedContact]) async -> [ContactToken: RelayName] {
    var owners: [ContactToken: RelayName] = [:]
    var open: [AskedContact] = []
    verdicts.withLock { verdicts in
      for contact in contacts {
        switch verdicts.find(contact, at: .now) {
        case .some(let owner): owners[contact.token] = owner
        case nil: open.append(contact)
        }
      }
    }
    guard !open.isEmpty else { return owners }
    do throws(StoreError) {
      let judged = try await judge(open)
      verdicts.withLock { verdicts in
        for contact in open { verdicts.remember(judged[contact.token], of: contact, at: .now) }
      }
      isFailing.withLock { $0 = false }
      return owners.merging(judged) { _, judged in judged }
    } catch {
      let isFirst = isFailing.withLock { isFailing in
        defer { isFailing = true }
        return !isFailing
      }
      if isFirst {
        logger.warning("whose contacts are that peers know is not known", metadata: ["reason": "\(error)"])
      }
      return owners
    }
  }

  /// Forgets the verdict on an account that has changed, and all of them where changes may have been missed.
  func heard(_ event: SignalEvent) {
    switch event {
    case .signal(.accountChanged(let number)): verdicts.withLock { $0.forget(ContactToken(of: number)) }
    case .connected: verdicts.withLock { $0 = ClaimVerdicts() }
    case .signal(.peersChanged), .signal(.contactsChanged), .signal(.wakesAsked), .disconnected: break
    }
  }

  /// The peer that `token` is remembered as the contact of, by the store.
  /// - Throws: `.unavailable`.
  func holder(of token: ContactToken) async throws(Problem) -> RelayName? {
    let owners = try await storing { () throws(StoreError) in try await store.contactOwners(of: [token]) }
    guard case .peer(let peer, _) = owners.first?.holder else { return nil }
    return peer
  }

  private func judge(_ contacts: [AskedContact]) async throws(StoreError) -> [ContactToken: RelayName] {
    let known = Dictionary(
      try await store.contactOwners(of: contacts.map(\.token)).map { ($0.token, $0.holder) }
    ) { first, _ in first }
    var owners: [ContactToken: RelayName] = [:]
    var memories: [RelayName: [ContactToken]] = [:]
    for contact in contacts {
      switch ClaimVerdict(on: contact, known[contact.token]) {
      case .nobody: continue
      case .contested: for peer in contact.claimants { contested.add(of: peer) }
      case .owner(let peer): owners[contact.token] = peer
      case .ownerToRemember(let peer):
        owners[contact.token] = peer
        memories[peer, default: []].append(contact.token)
      }
    }
    for (peer, tokens) in memories {
      let remembered = try await store.rememberClaims(to: tokens, of: peer, keepingAtMost: claimsMax)
      // Another process may have remembered another one, or the peer claims more than it may.
      for token in tokens where !remembered.contains(token) {
        owners[token] = nil
        refused.add(of: peer)
      }
    }
    return owners
  }
}

/// The decision whose a contact is, made from the peers' answers and the remembered claim.
enum ClaimVerdict: Equatable {
  case nobody
  /// Several claim it, and nobody is remembered.
  case contested
  case owner(RelayName)
  case ownerToRemember(RelayName)

  init(on contact: AskedContact, _ holder: ContactOwner.Holder?) {
    switch holder {
    case .local: self = .nobody
    case .peer(let peer, let isDue):
      guard contact.claimants.contains(peer) else {
        self = .nobody
        return
      }
      self = isDue ? .ownerToRemember(peer) : .owner(peer)
    case nil:
      guard let first = contact.claimants.first else {
        self = .nobody
        return
      }
      guard contact.claimants.count == 1 else {
        self = .contested
        return
      }
      self = contact.isWhole ? .ownerToRemember(first) : .owner(first)
    }
  }
}

/// Verdicts of the last ten seconds, bounded in number: the older half is forgotten when it is full.
struct ClaimVerdicts {
  private struct Entry {
    let claimants: [RelayName]
    let owner: RelayName?
    let end: ContinuousClock.Instant
  }

  private var entries: TwoGenerations<ContactToken, Entry>
  static let life = Duration.seconds(10)

  /// - Parameter max: 2 or more; the default takes some 20 MB.
  init(max: Int = 200_000) { entries = TwoGenerations(capacity: max) }

  /// - Returns: the owner, or that there is none; nil when there is no verdict on these claimants.
  func find(_ contact: AskedContact, at now: ContinuousClock.Instant) -> RelayName?? {
    guard let entry = entries[contact.token], now < entry.end,
      entry.claimants == contact.claimants
    else { return nil }
    return .some(entry.owner)
  }

  mutating func forget(_ token: ContactToken) { entries.removeValue(forKey: token) }

  mutating func remember(_ owner: RelayName?, of contact: AskedContact, at now: ContinuousClock.Instant) {
    entries.insert(Entry(claimants: contact.claimants, owner: owner, end: now + Self.life), for: contact.token)
  }
}
