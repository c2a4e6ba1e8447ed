package import RelayCore
import Synchronization

/// Limits, budgets, signals and presence of an operator that runs one process: nothing leaves it, and nothing outlives
/// it.
package final class LocalCoordination: Coordination {
  private let table: Mutex<BucketTable>
  private let sketches = Mutex(ContactSketchTable())
  let clock: WallClock
  private let listeners = Listeners<SignalEvent>(name: "relay.signals", initial: .connected)
  let presence = Listeners<PresenceEvent>(name: "relay.presence", initial: .connected)
  let addresses = Mutex(WaitingAddresses())

  /// - Parameter buckets: shapes that differ from `LimiterName.defaultBucket`.
  package init(
    buckets: [LimiterName: Bucket] = [:], clock: WallClock, bucketsMax: Int = LocalCoordination.bucketsMaxDefault
  ) {
    table = Mutex(BucketTable(buckets: buckets, bucketsMax: bucketsMax))
    self.clock = clock
  }

  package func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision {
    let now = clock.now()
    return table.withLock { $0.take(amount, from: limiter, key: key, at: now) }
  }

  package func take(_ charges: [LimitCharge]) async -> LimitDecision {
    let now = clock.now()
    return table.withLock { $0.take(charges, at: now) }
  }

  package func space(in limiter: LimiterName, key: LimitKey) async -> Double {
    let now = clock.now()
    return table.withLock { $0.space(in: limiter, key: key, at: now) }
  }

  package func shape(of limiter: LimiterName) -> Bucket { table.withLock { $0.shape(of: limiter) } }
  package func setLimits(_ buckets: [LimiterName: Bucket]) { table.withLock { $0.setShapes(buckets) } }

  package func spend(
    _ tokens: [ContactToken], of account: AccountNumber, within allowance: LookUpAllowance
  ) async -> ContactSpending {
    let now = clock.now()
    return sketches.withLock { $0.spend(tokens, of: account, within: allowance, at: now) }
  }

  /// On return every listener has been told.
  package func publish(_ signal: Signal) async { await listeners.tell(.signal(signal)) }
  package func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void) { listeners.add(handler) }

  package func degradation() async -> String? { nil }
  package var epochWitness: (any EpochWitness)? { nil }
  package var pushBoard: (any PushBoard)? { nil }
  package func close() async {}

  /// Some 30 MB when all are in use.
  package static let bucketsMaxDefault = 200_000
}
