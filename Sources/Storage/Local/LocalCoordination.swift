package import RelayCore
import Synchronization

/// Limits and signals of an operator that runs one process: nothing leaves it, and nothing outlives it.
package final class LocalCoordination: Coordination {
  private let table: Mutex<BucketTable>
  private let clock: WallClock
  private let listeners = SignalListeners(initial: .connected)

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

  /// On return every listener has been told.
  package func publish(_ signal: Signal) async { await listeners.tell(.signal(signal)) }
  package func listen(_ handler: @escaping @Sendable (SignalEvent) -> Void) { listeners.add(handler) }

  package func degradation() async -> String? { nil }
  package var epochWitness: (any EpochWitness)? { nil }
  package func close() async {}

  /// Some 30 MB when all are in use.
  package static let bucketsMaxDefault = 200_000
}
