package import Logging
import Metrics
package import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle

/// Ends the claims of peers whose time is over, and says when a contact has passed to another peer
/// (docs/federation.md, "Whose a contact is").
///
/// One of the operator's processes does it at a time, by a lease. The store keeps how many passes nobody was told of
/// yet, those by the operator's commands too, while no process is there.
package final class OwnershipKeeper: Service {
  private let store: any ContactClaimStore & PeerStore & LeaseStore
  private let days: Int
  private let interval: Duration
  private let lease: Lease<StoreError>
  private let logger: Logger
  private let passes = RelayMetric.contacts.passes.counter()

  /// - Parameters:
  ///   - days: how long a tombstone stands.
  ///   - holder: a random number of this process.
  package init(
    store: any ContactClaimStore & PeerStore & LeaseStore, days: Int, interval: Duration = .seconds(10),
    holder: Int64 = .random(in: 1 ... .max), logger: Logger
  ) {
    self.store = store
    self.days = days
    self.interval = interval
    self.logger = logger
    lease = store.lease(holder: holder, lasting: min(max(interval * 3, .seconds(1)), .seconds(30)))
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      var isFailing = false
      for await _ in Periodic(every: interval) {
        do throws(StoreError) {
          try await round()
          isFailing = false
        } catch {
          if !isFailing, !Task.isCancelled {
            logger.warning("claims to contacts cannot be looked through", metadata: ["reason": "\(error)"])
          }
          isFailing = true
        }
      }
    }
  }

  func round() async throws(StoreError) {
    let done = try await lease.keep("contact claims") { await self.endAll() }
    guard let done else { return }
    try done.get()
    let untold = try await store.takeUntoldPasses()
    guard untold > 0 else { return }
    passes.increment(by: untold)
    logger.notice(
      "contacts passed from one peer to another, by the end of a claim or the operator's word",
      metadata: ["contacts": "\(untold)"])
  }

  private func endAll() async -> Result<Void, StoreError> {
    do throws(StoreError) {
      for peer in try await store.peers() {
        while !Task.isCancelled {
          let outcome = try await store.endClaims(of: peer.name, afterDays: days)
          guard outcome.ended > 0 else { break }
          logger.info(
            "claims to contacts ended",
            metadata: ["peer": "\(peer.name)", "claims": "\(outcome.ended)", "passed": "\(outcome.passed)"])
        }
      }
      return .success(())
    } catch {
      return .failure(error)
    }
  }
}
