import RelayCore

/// How many contacts a peer may still claim here: plain arithmetic, the store is asked by `DirectoryPuller`.
///
/// Counting millions of rows for every change would cost more than the change. So it goes by an upper bound, which
/// every contact raises that is taken up, new or not, and which is counted anew when it is reached.
struct ContactAllowance: Sendable {
  let max: Int
  /// Not fewer than the peer has here; nil until they were counted.
  private(set) var keptAtMost: Int?
  private var counted: ContinuousClock.Instant?

  /// A peer that stays at its bound is counted this often.
  private static let countInterval = Duration.seconds(60)

  /// - Parameter kept: what the peer has here, when that is known without counting.
  init(max: Int, kept: Int? = nil) {
    self.max = max
    keptAtMost = kept
  }

  /// Whether the store should count before `accounts` are admitted.
  func needsCount(for accounts: [ListedAccount], at now: ContinuousClock.Instant) -> Bool {
    guard let keptAtMost else { return true }
    let active = accounts.count { !$0.isInactive }
    guard active > max - keptAtMost else { return false }
    return counted.map { now - $0 >= Self.countInterval } ?? true
  }

  mutating func counted(_ kept: Int, at now: ContinuousClock.Instant) {
    keptAtMost = kept
    counted = now
  }

  /// - Returns: the inactive ones, which are to be removed, and as many of the active ones as there is room for, in
  ///   order; and how many are refused.
  mutating func admit(_ accounts: [ListedAccount]) -> (admitted: [ListedAccount], refused: Int) {
    var room = Swift.max(0, max - (keptAtMost ?? 0))
    let admitted = accounts.filter { account in
      if account.isInactive { return true }
      guard room > 0 else { return false }
      room -= 1
      return true
    }
    keptAtMost = max - room
    return (admitted, accounts.count - admitted.count)
  }
}
