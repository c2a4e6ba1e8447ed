package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle

/// Removes the outputs that are left of a time when oblivious look-ups were offered: nobody keeps them up to date, and
/// accounts that go would stay among them.
///
/// A process that still offers them holds the lease; it is waited for.
package final class ObliviousRemoval: Service {
  package typealias Store = ObliviousStore & LeaseStore

  private let store: any Store
  private let logger: Logger
  /// Between two tries.
  private let pause: Duration
  private let lease: Lease<StoreError>

  /// Outputs of one transaction.
  private static let portion = 1_000
  private static let leaseLife = Duration.seconds(30)

  package convenience init(store: any Store, logger: Logger) {
    self.init(store: store, logger: logger, pause: .seconds(30))
  }

  init(store: any Store, logger: Logger, pause: Duration) {
    self.store = store
    self.logger = logger
    self.pause = pause
    lease = store.lease(holder: .random(in: .min ... .max), lasting: Self.leaseLife)
  }

  /// Lives as long as the process, like every service.
  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      for await _ in Periodic(every: pause) {
        if await isDone() { break }
      }
      await Pause.untilCancelled()
    }
  }

  private func isDone() async -> Bool {
    do throws(StoreError) {
      guard let progress = try await store.obliviousProgress() else { return true }
      if progress.rangesDone == 0, try await store.tokensWithOutput(after: nil, limit: 1).isEmpty { return true }
      let isDone = try await remove(progress)
      try await lease.release(ObliviousIndexer.leaseName)
      return isDone
    } catch {
      logger.notice("outputs of oblivious look-ups could not be removed yet", metadata: ["reason": "\(error)"])
      return false
    }
  }

  /// Marks no range as done, so that a process that goes on from `progress` begins anew.
  /// - Returns: false if another process takes care of the outputs.
  private func remove(_ progress: ObliviousProgress) async throws(StoreError) -> Bool {
    var (step, last): (Int64, ContactToken?) = (progress.step, nil)
    while !Task.isCancelled {
      guard try await lease.acquire(ObliviousIndexer.leaseName) else { return false }
      let tokens = try await store.tokensWithOutput(after: last, limit: Self.portion)
      let next = ObliviousProgress(
        key: progress.key, place: progress.place, rangesDone: 0, isSwept: false, followed: progress.followed,
        step: step + 1)
      guard try await store.writeOutputs(ObliviousChange(removed: tokens), next, over: step) else { return false }
      guard tokens.count == Self.portion else { return true }
      (step, last) = (next.step, tokens.last)
    }
    return false
  }
}
