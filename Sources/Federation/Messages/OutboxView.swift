import RelayCore

/// This process's knowledge of which outboxes are empty, so that a message for a peer that can be reached costs no
/// read.
///
/// A process holds messages when *it* finds a peer unreachable. Here that shows at once. Messages held by another
/// process show with the peer's condition, which spreads within a second, or with the next reading, two seconds later
/// at most. Until then a message may overtake one that another process holds.
struct OutboxView {
  private var empty: Set<RelayName> = []
  /// Counts up with each hold.
  private var count: UInt64 = 0
  /// The last hold of each peer, by `count`; dropped by the next reading.
  private var holds: [RelayName: UInt64] = [:]

  /// Whether the store has to be asked what is held for the peer.
  func mustLookUp(_ relay: RelayName, isReachable: Bool) -> Bool { !isReachable || !empty.contains(relay) }

  /// Called before something is held, and again when it is.
  mutating func willHold(for relay: RelayName) {
    count += 1
    holds[relay] = count
    empty.remove(relay)
  }

  /// Other processes may hold messages for it from now on.
  mutating func becameUnreachable(_ relay: RelayName) { empty.remove(relay) }

  /// - Returns: what to give `readingEnded`.
  func readingBegan() -> UInt64 { count }

  /// - Parameters:
  ///   - relays: the peers that can be reached.
  ///   - full: those for which something was found.
  mutating func readingEnded(_ began: UInt64, of relays: some Sequence<RelayName>, full: Set<RelayName>) {
    holds = holds.filter { $0.value > began }
    empty = Set(relays.filter { !full.contains($0) && holds[$0] == nil })
  }
}
