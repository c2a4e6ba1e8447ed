import Logging
import RelayCore
import RelayWork

/// Stores what has become of pushes, several at a time: what comes while others are being stored goes together.
final class PushSettlements: Sendable {
  private let calls: BatchedCalls<PushSettlement, Void>

  init(store: any NotificationStore, logger: Logger) {
    // As many as are under way at a time may wait.
    calls = BatchedCalls(
      bounds: .init(batch: .init(items: 500), waiting: .init(items: .max)), size: { _ in .init(items: 1) },
      run: { batch in
        do throws(StoreError) {
          try await store.settlePushes(batch.map(\.call))
        } catch {
          // The claims run out, and the pushes are made again.
          logger.debug("the outcome of pushes cannot be stored", metadata: ["error": "\(error)"])
        }
        for member in batch { member.end(with: ()) }
      })
  }

  /// Returns when it is stored, or cannot be.
  func add(_ settlement: PushSettlement) async { await calls.outcome(of: settlement) }
}
