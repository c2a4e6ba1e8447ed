import RelayCore

/// The open connections of one process by what they proved, and which of them must end.
struct ConnectionTable {
  /// One connection: never used again for another.
  struct ID: Hashable, Sendable { fileprivate let number: UInt64 }

  /// Why one is ended.
  enum End: String, Sendable {
    case notAPeer = "its holder is no active peer any more, or its certificate is revoked"
    case expired = "its certificate has ended"
    case noInvitation = "its holder is unknown, and no invitation is open"
    case lingering = "its holder is unknown, and has redeemed no invitation in time"
    case suspended = "its holder is suspended, and was told so"
  }

  private enum Holder: Hashable {
    case peer(RelayName)
    /// Has come to redeem an invitation: becomes a peer then.
    case stranger
    /// Has come while it is suspended.
    case suspended(RelayName)
  }
  private struct Entry {
    let identity: ConnectionIdentity
    let opened: ContinuousClock.Instant
    var holder: Holder
    /// It is told to end already.
    var isEnding = false
  }

  private var entries: [ID: Entry] = [:]
  private var last: UInt64 = 0
  private let perHolderMax: Int

  /// A peering takes a few round trips and a few writes.
  static let strangerLife = Duration.seconds(60)
  /// One request, and its answer.
  static let suspendedLife = Duration.seconds(5)

  /// - Parameter perHolderMax: connections of each peer, and of all strangers together; those that are ending count
  ///   too.
  init(perHolderMax: Int) { self.perHolderMax = perHolderMax }

  var hasStrangers: Bool { entries.values.contains { $0.holder == .stranger && !$0.isEnding } }

  /// - Returns: nil when its holder has as many as it may: the newest one is refused.
  mutating func opened(_ identity: ConnectionIdentity, among peers: PeerTable, at now: ContinuousClock.Instant) -> ID? {
    let holder =
      peers.peer(knownBy: identity).map { $0.isActive ? Holder.peer($0.name) : .suspended($0.name) } ?? .stranger
    guard entries.values.count(where: { $0.holder == holder }) < perHolderMax else { return nil }
    last += 1
    let id = ID(number: last)
    entries[id] = Entry(identity: identity, opened: now, holder: holder)
    return id
  }

  mutating func closed(_ id: ID) { entries[id] = nil }

  /// - Parameter hasInvitation: whether an unknown relay has anything to do here.
  /// - Returns: those that must end now, each told once.
  mutating func review(
    against peers: PeerTable, hasInvitation: Bool, at now: ContinuousClock.Instant, date: Timestamp
  ) -> [(id: ID, name: RelayName, end: End)] {
    var ending: [(id: ID, name: RelayName, end: End)] = []
    for (id, var entry) in entries where !entry.isEnding {
      if let peer = peers.peer(proving: entry.identity) { entry.holder = .peer(peer.name) }
      let end = end(of: entry, peers, hasInvitation, now, date)
      entry.isEnding = end != nil
      entries[id] = entry
      if let end { ending.append((id, entry.identity.name, end)) }
    }
    return ending
  }

  private func end(
    of entry: Entry, _ peers: PeerTable, _ hasInvitation: Bool, _ now: ContinuousClock.Instant, _ date: Timestamp
  ) -> End? {
    if date > entry.identity.validUntil { return .expired }
    if peers.peer(proving: entry.identity) != nil { return nil }
    switch entry.holder {
    case .peer: return .notAPeer
    case .suspended: return now - entry.opened > Self.suspendedLife ? .suspended : nil
    case .stranger where !hasInvitation: return .noInvitation
    case .stranger: return now - entry.opened > Self.strangerLife ? .lingering : nil
    }
  }
}
