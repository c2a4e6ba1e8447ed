import RelayCore
import RelayWork
import Synchronization

/// Lets a process allow the beginning of a bucket by itself, and has it charged behind the answer (docs/decisions/
/// 2026-11-24-leased-limits.md): an ordinary message waits for no script of Redis.
///
/// A process allows a sixteenth of each bucket before it is charged, and nothing once it alone has used a quarter of
/// it: from then on Redis is asked each time, and what is owed goes with it. So a process exceeds a bucket by a
/// sixteenth at most, and only while it owes that: half a second, where Redis answers and the bucket has room.
final class LeasedTakes: Sendable {
  fileprivate struct Bucket: Hashable {
    let limiter: LimiterName
    let key: LimitKey

    init(_ charge: LimitCharge) { (limiter, key) = (charge.limiter, charge.key) }
  }

  fileprivate struct State {
    /// The buckets as if this process alone charged them.
    var own: BucketTable
    /// Amounts that were allowed and are not charged yet.
    var debts: [Bucket: Double] = [:]
    /// The part of `debts` that Redis is just being asked for.
    var underWay: [Bucket: Double] = [:]
    /// Whether a task pays what is owed.
    var isPaid = false
  }

  private let limiters: Set<LimiterName>
  private let clock: WallClock
  private let state: Mutex<State>

  /// - Parameter limiters: those whose buckets may be leased.
  init(of limiters: Set<LimiterName>, shapes: [LimiterName: RelayCore.Bucket], clock: WallClock) {
    self.limiters = limiters
    self.clock = clock
    state = Mutex(State(own: BucketTable(buckets: shapes, bucketsMax: Self.bucketsMax)))
  }

  /// Allows `charges` where a lease covers them all. `pay` is due from then on.
  func allows(_ charges: [LimitCharge]) -> Bool {
    guard charges.allSatisfy({ limiters.contains($0.limiter) && $0.amount >= 0 }) else { return false }
    let now = clock.now()
    return state.withLock { state in
      guard state.debts.count + charges.count <= Self.debtsMax else { return false }
      for charge in charges {
        let size = state.own.shape(of: charge.limiter).size
        guard (state.debts[Bucket(charge)] ?? 0) + charge.amount <= size * Self.lease,
          state.own.space(in: charge.limiter, key: charge.key, at: now) - charge.amount >= size * Self.untouched
        else { return false }
      }
      guard state.own.take(charges, at: now) == .allowed else { return false }
      for charge in charges where charge.amount > 0 { state.debts[Bucket(charge), default: 0] += charge.amount }
      return true
    }
  }

  /// Takes what is owed of the buckets of `charges`: the caller charges it before them, and calls `settle`.
  func takeDebts(of charges: [LimitCharge]) -> [LimitCharge] {
    guard charges.contains(where: { limiters.contains($0.limiter) }) else { return [] }
    return state.withLock { state in charges.compactMap { state.takeDebt(of: Bucket($0)) } }
  }

  /// Takes what is owed of all buckets.
  private func takeDebts() -> [LimitCharge] {
    state.withLock { state in state.debts.keys.compactMap { state.takeDebt(of: $0) } }
  }

  /// Until then they count as owed, so that no more is allowed than a lease; and what was refused goes on to: the
  /// bucket has no room for it yet.
  /// - Parameter decisions: one for each of `debts`.
  func settle(_ debts: [LimitCharge], by decisions: some Sequence<LimitDecision>) {
    state.withLock { state in
      for (debt, decision) in zip(debts, decisions) { state.settle(debt, isPaid: decision == .allowed) }
    }
  }

  /// `charges` were allowed by Redis.
  func charged(_ charges: [LimitCharge]) {
    let leased = charges.filter { limiters.contains($0.limiter) }
    let now = clock.now()
    if !leased.isEmpty { state.withLock { _ = $0.own.take(leased, at: now) } }
  }

  /// How much of a bucket is owed.
  func debt(of limiter: LimiterName, _ key: LimitKey) -> Double {
    state.withLock { $0.debts[Bucket(LimitCharge(0, from: limiter, key: key))] ?? 0 }
  }

  func setShapes(_ shapes: [LimiterName: RelayCore.Bucket]) { state.withLock { $0.own.setShapes(shapes) } }

  /// Has what is owed charged in a while, and whatever comes until then.
  /// - Parameter charge: charges each by itself.
  func pay(by charge: @escaping @Sendable ([LimitCharge]) async -> [LimitDecision]) {
    let isFirst = state.withLock { state in
      defer { state.isPaid = true }
      return !state.isPaid
    }
    guard isFirst else { return }
    Task {
      // The task is never cancelled, so sleeping does not throw.
      for await _ in Periodic(every: Self.interval, from: .afterInterval) {
        await payNow(by: charge)
        if !owesMore() { return }
      }
    }
  }

  /// - Returns: false from the moment on when nobody pays any more.
  private func owesMore() -> Bool {
    state.withLock { state in
      state.isPaid = !state.debts.isEmpty
      return state.isPaid
    }
  }

  /// Has all charged that is owed just now.
  func payNow(by charge: @Sendable ([LimitCharge]) async -> [LimitDecision]) async {
    let debts = takeDebts()
    guard !debts.isEmpty else { return }
    settle(debts, by: await charge(debts))
  }

  /// Parts of a bucket's size: a process may owe the first, while it has left the second alone.
  private static let lease = 1.0 / 16
  private static let untouched = 3.0 / 4
  private static let interval = Duration.milliseconds(500)
  /// Buckets of which something is owed; what comes on top asks Redis.
  private static let debtsMax = 10_000
  private static let bucketsMax = 200_000
}

extension LeasedTakes.State {
  fileprivate mutating func takeDebt(of bucket: LeasedTakes.Bucket) -> LimitCharge? {
    let amount = (debts[bucket] ?? 0) - (underWay[bucket] ?? 0)
    guard amount > 0 else { return nil }
    underWay[bucket, default: 0] += amount
    return LimitCharge(amount, from: bucket.limiter, key: bucket.key)
  }

  fileprivate mutating func settle(_ debt: LimitCharge, isPaid: Bool) {
    let bucket = LeasedTakes.Bucket(debt)
    Self.lower(&underWay, bucket, by: debt.amount)
    if isPaid { Self.lower(&debts, bucket, by: debt.amount) }
  }

  private static func lower(
    _ amounts: inout [LeasedTakes.Bucket: Double], _ bucket: LeasedTakes.Bucket, by amount: Double
  ) {
    let left = (amounts[bucket] ?? 0) - amount
    amounts[bucket] = left > 0 ? left : nil
  }
}
