import RelayCore
import RelayWork
import Synchronization

/// Lets a process allow the beginning of a bucket by itself (`LeasedBuckets`), and has it charged behind the answer,
/// half a second later where Redis answers and the bucket has room: an ordinary message waits for no script of Redis.
///
/// Once a process does not allow a charge by itself, Redis is asked, and what is owed goes with it.
final class LeasedTakes: Sendable {
  private struct State {
    var buckets: LeasedBuckets
    /// Whether a task pays what is owed.
    var isPaid = false
  }

  private let clock: WallClock
  private let state: Mutex<State>

  /// - Parameter limiters: those whose buckets may be leased.
  init(of limiters: Set<LimiterName>, shapes: [LimiterName: Bucket], clock: WallClock) {
    self.clock = clock
    state = Mutex(State(buckets: LeasedBuckets(of: limiters, shapes: shapes)))
  }

  /// Allows `charges` where a lease covers them all. `pay` is due from then on.
  func allows(_ charges: [LimitCharge]) -> Bool {
    let now = clock.now()
    return state.withLock { $0.buckets.allows(charges, at: now) }
  }

  /// Takes what is owed of the buckets of `charges`: the caller charges it before them, and calls `settle`.
  func takeDebts(of charges: [LimitCharge]) -> [LimitCharge] {
    state.withLock { $0.buckets.takeDebts(of: charges) }
  }

  /// - Parameter decisions: one for each of `debts`. A debt that was refused is owed as before.
  func settle(_ debts: [LimitCharge], by decisions: some Sequence<LimitDecision>) {
    state.withLock { $0.buckets.settle(debts, by: decisions) }
  }

  /// `charges` were allowed by Redis.
  func charged(_ charges: [LimitCharge]) {
    let now = clock.now()
    state.withLock { $0.buckets.charged(charges, at: now) }
  }

  /// How much of a bucket is owed.
  func debt(of limiter: LimiterName, _ key: LimitKey) -> Double {
    state.withLock { $0.buckets.debt(of: limiter, key) }
  }

  func setShapes(_ shapes: [LimiterName: Bucket]) { state.withLock { $0.buckets.setShapes(shapes) } }

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
      state.isPaid = state.buckets.owes
      return state.isPaid
    }
  }

  /// Has all charged that is owed just now.
  func payNow(by charge: @Sendable ([LimitCharge]) async -> [LimitDecision]) async {
    let debts = state.withLock { $0.buckets.takeDebts() }
    guard !debts.isEmpty else { return }
    settle(debts, by: await charge(debts))
  }

  private static let interval = Duration.milliseconds(500)
}
