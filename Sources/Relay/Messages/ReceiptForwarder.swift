package import Logging
import Metrics
package import RelayCore
import ServiceLifecycle

/// Tells peers that messages of their accounts have arrived here, behind the back of the client that acknowledged them.
///
/// Best effort: a receipt that its peer does not take, or that finds the queue full, is dropped and counted. What is
/// queued when the process ends is lost.
package final class ReceiptForwarder: Service {
  private struct Forward: Sendable {
    let receipt: DeliveryReceipt
    let relay: RelayName
  }

  private let courier: any Courier
  private let logger: Logger
  private let queued: AsyncStream<Forward>
  private let queue: AsyncStream<Forward>.Continuation
  private let overflowed = ReceiptForwarder.dropped(because: "queue-full")
  private let unstorable = ReceiptForwarder.dropped(because: "store")
  private let refused = ReceiptForwarder.dropped(because: "peer")

  package init(courier: any Courier, logger: Logger) {
    self.courier = courier
    self.logger = logger
    (queued, queue) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.queuedMax))
  }

  /// Queues the receipt for a message that came from `relay`.
  func send(_ receipt: DeliveryReceipt, to relay: RelayName) {
    if case .dropped = queue.yield(Forward(receipt: receipt, relay: relay)) { dropped(1) }
  }

  /// So many receipts found no room in a queue: this one, or that of receipts for accounts of ours.
  func dropped(_ count: Int) { overflowed.increment(by: count) }

  /// The store refuses so many receipts for accounts of ours, and always would.
  func lost(_ count: Int) { unstorable.increment(by: count) }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        var underWay = 0
        for await forward in queued {
          if underWay == Self.underWayMax { await group.next() } else { underWay += 1 }
          group.addTask { await self.send(forward) }
        }
        group.cancelAll()
      }
    }
  }

  private func send(_ forward: Forward) async {
    let receipt = forward.receipt
    do throws(Problem) {
      try await courier.sendReceipt(
        for: receipt.timestamp, from: receipt.source, to: receipt.destination, at: forward.relay)
    } catch {
      refused.increment()
      logger.debug(
        "a peer took no receipt", metadata: ["peer": "\(forward.relay)", "reason": "\(error.kind.rawValue)"])
    }
  }

  private static func dropped(because reason: String) -> Counter {
    Counter(label: "relay_receipts_dropped_total", dimensions: [("reason", reason)])
  }

  /// What the acknowledgements of a few busy seconds bring, while a peer is slow.
  private static let queuedMax = 4096
  /// Enough for a peer that is far away, few enough not to be a flood.
  private static let underWayMax = 32
}
