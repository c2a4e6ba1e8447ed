import RelayCore

/// The charges that had no room lately, and how long they have none. A new charge can be refused without asking the
/// limiter again.
///
/// A charge larger than a refused one is refused as well. A charge of another process never makes room.
struct BudgetShortages {
  private struct Shortage {
    let amount: Int
    let hasRoomAt: ContinuousClock.Instant
    /// When the limiter is to be asked again.
    let end: ContinuousClock.Instant
  }
  private struct Key: Hashable {
    let peer: RelayName
    let budget: LimiterName
  }

  /// The peers that were refused lately. Their number is bounded by the names that this operator gave to peers.
  private var shortages: [Key: Shortage] = [:]

  /// Longer waits are asked for again by then: limits may change, and the processes' own ones serve without Redis.
  static let lifeMax = Duration.seconds(1)

  /// - Parameter wait: until there is room.
  mutating func refused(
    _ amount: Int, of budget: LimiterName, _ peer: RelayName, wait: Duration, at now: ContinuousClock.Instant
  ) {
    shortages = shortages.filter { now < $0.value.end }
    shortages[Key(peer: peer, budget: budget)] = Shortage(
      amount: amount, hasRoomAt: now + wait, end: now + min(wait, Self.lifeMax))
  }

  /// - Parameter amount: nil when it is not known, and is as large as any then.
  /// - Returns: how long there is no room for it; nil when there may be.
  func wait(
    for amount: Int?, of budget: LimiterName, _ peer: RelayName, at now: ContinuousClock.Instant
  ) -> Duration? {
    guard let shortage = shortages[Key(peer: peer, budget: budget)], now < shortage.end,
      amount.map({ $0 >= shortage.amount }) ?? true
    else { return nil }
    return shortage.hasRoomAt - now
  }
}
