import Logging
import RelayCore
import Synchronization

/// Stores what has become of pushes, several at a time: what comes while others are being stored goes together.
final class PushSettlements: Sendable {
  private struct State {
    var waiting: [PushSettlement] = []
    var isStoring = false
  }

  private static let batchMax = 500
  private let store: any NotificationStore
  private let logger: Logger
  private let state = Mutex(State())

  init(store: any NotificationStore, logger: Logger) {
    self.store = store
    self.logger = logger
  }

  /// Returns when it is stored, or somebody else is about to do so.
  func add(_ settlement: PushSettlement) async {
    let isStoring = state.withLock { state in
      state.waiting.append(settlement)
      defer { state.isStoring = true }
      return state.isStoring
    }
    guard !isStoring else { return }
    while let batch = next() {
      do throws(StoreError) {
        try await store.settlePushes(batch)
      } catch {
        // The claims run out, and the pushes are made again.
        logger.debug("the outcome of pushes cannot be stored", metadata: ["error": "\(error)"])
      }
    }
  }

  private func next() -> [PushSettlement]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.isStoring = false
        return nil
      }
      let batch = Array(state.waiting.prefix(Self.batchMax))
      state.waiting.removeFirst(batch.count)
      return batch
    }
  }
}
