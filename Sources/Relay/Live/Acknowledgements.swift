package import Logging
import RelayCore
import RelayHTTP
import RelayWork
import ServiceLifecycle

/// Removes what clients have acknowledged from their mailboxes, with receipts for it: what gathers during one call to
/// the store goes with the next.
package final class Acknowledgements: Service {
  private struct Removal: Sendable {
    let session: DeviceSession
    let delivery: DeliveryWindow.Delivery
    /// Tries whose outcome is not known.
    var failures = 0
    var place: MailboxPlace { MailboxPlace(session.device, sequence: delivery.sequence) }
  }

  private let removals: Batcher<Removal>

  package init(receipts: DeliveryReceipts, hub: Hub, logger: Logger) {
    let remover = Remover(receipts: receipts, metrics: hub.metrics, logger: logger)
    removals = Batcher(
      retryingBatchesOf: Self.removalsPerCall, waitingMax: Self.waitingMax, rest: .init(gathering: Self.gathering)
    ) {
      await remover.remove($0)
    }
  }

  /// - Returns: false when too many wait: then the message stays, and comes again on the next connection.
  func add(_ delivery: DeliveryWindow.Delivery, of session: DeviceSession) -> Bool {
    removals.add(Removal(session: session, delivery: delivery))
  }

  /// When the process stops, what was acknowledged before is removed.
  package func run() async throws {
    try await gracefulShutdown()
    await removals.settle(until: .now + Self.farewell)
  }

  private static let removalsPerCall = 500
  /// Nobody waits for a removal, and ten rows cost PostgreSQL little more than one. Nothing is sent twice meanwhile.
  private static let gathering = Duration.milliseconds(8)
  /// As many as some busy seconds bring while the store is slow.
  private static let waitingMax = 100_000
  private static let farewell = Duration.seconds(5)

  private struct Remover: Sendable {
    let receipts: DeliveryReceipts
    let metrics: LiveMetrics
    let logger: Logger

    /// A group that fails twice is divided, and goes last: a removal that always fails holds no other back.
    /// - Returns: the removals to try again: while their sessions live, and a few times beyond, since a store that
    ///   fails over is soon back. A device that has gone is sent the others again when it is back.
    func remove(_ removals: [Removal]) async -> [Removal] {
      var groups = failureGroups(of: removals, max: Acknowledgements.removalsPerCall, failures: \.failures)[...]
      while let group = groups.popFirst() {
        var left = await tried(group)
        guard !left.isEmpty else { continue }
        await Pause.for(Self.pause)
        left.removeAll { $0.session.hasEnded && $0.failures >= Self.triesBeyondEnd }
        for index in left.indices { left[index].failures += 1 }
        return groups.flatMap(\.self) + left
      }
      return []
    }

    /// - Returns: the removals that the store has left without an answer, and those behind them.
    private func tried(_ removals: [Removal]) async -> [Removal] {
      do throws(StoreError) {
        try await removeOnce(removals)
        return []
      } catch .unavailable {
        return removals
      } catch {
        return await triedEach(removals)
      }
    }

    /// The store refuses something among them: it fails for itself and not for its neighbours.
    private func triedEach(_ removals: [Removal]) async -> [Removal] {
      for (index, removal) in removals.enumerated() {
        do throws(StoreError) {
          try await removeOnce([removal])
        } catch .unavailable {
          return Array(removals[index...])
        } catch {
          removal.session.removalFailed(removal.delivery.id)
          logger.error("an acknowledged message was not removed", metadata: ["error": "\(error)"])
        }
      }
      return []
    }

    private func removeOnce(_ removals: [Removal]) async throws(StoreError) {
      let removed = try await receipts.remove(
        removals.map { .init(place: $0.place, receipt: $0.delivery.receipt, mayBeGone: $0.failures > 0) })
      for removal in removals {
        if removed.contains(removal.place) {
          removal.session.removed(removal.delivery.id)
        } else {
          // Another transaction has removed it, is about to, or a try of ours before.
          removal.session.removalFailed(removal.delivery.id)
        }
      }
      metrics.removed(removed.count)
    }

    private static let pause = Duration.seconds(1)
    private static let triesBeyondEnd = 10
  }
}
