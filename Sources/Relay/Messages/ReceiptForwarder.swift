package import Logging
import Metrics
package import RelayCore
import ServiceLifecycle

/// Tells peers that messages of their accounts have arrived here, behind the back of the client that acknowledged them.
///
/// Best effort: a receipt that its peer does not take, or that finds the queue full, is dropped and counted. What is
/// queued when the process ends is lost.
package final class ReceiptForwarder: Service {
  private struct Receipt: Sendable {
    let timestamp: Timestamp
    let source: DeviceAddress
    let destination: AccountNumber
    let relay: RelayName
  }

  private let courier: any Courier
  private let logger: Logger
  private let queued: AsyncStream<Receipt>
  private let queue: AsyncStream<Receipt>.Continuation
  private let overflowed = ReceiptForwarder.dropped(because: "queue-full")
  private let refused = ReceiptForwarder.dropped(because: "peer")

  package init(courier: any Courier, logger: Logger) {
    self.courier = courier
    self.logger = logger
    (queued, queue) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.queuedMax))
  }

  /// Queues the receipt for a message that came from `relay`.
  func sendReceipt(for acknowledged: Envelope, to relay: RelayName) {
    let receipt = Receipt(
      timestamp: acknowledged.timestamp, source: acknowledged.destination,
      destination: acknowledged.source.account, relay: relay)
    if case .dropped = queue.yield(receipt) { overflowed.increment() }
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      await withTaskGroup(of: Void.self) { group in
        var underWay = 0
        for await receipt in queued {
          if underWay == Self.underWayMax { await group.next() } else { underWay += 1 }
          group.addTask { await self.send(receipt) }
        }
        group.cancelAll()
      }
    }
  }

  private func send(_ receipt: Receipt) async {
    do throws(Problem) {
      try await courier.sendReceipt(
        for: receipt.timestamp, from: receipt.source, to: receipt.destination, at: receipt.relay)
    } catch {
      refused.increment()
      logger.debug(
        "a peer took no receipt", metadata: ["peer": "\(receipt.relay)", "reason": "\(error.kind.rawValue)"])
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
