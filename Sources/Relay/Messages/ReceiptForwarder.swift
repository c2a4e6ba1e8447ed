package import Logging
import Metrics
package import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Tells peers that messages of their accounts have arrived here, behind the back of the client that acknowledged them.
///
/// Best effort: a receipt that its peer does not take, or that finds the queue full, is dropped and counted. A process
/// that is told to stop goes on for some seconds and counts what it still has then; what a killed one had is lost.
package final class ReceiptForwarder: Service {
  private struct Forward: Sendable {
    let receipt: DeliveryReceipt
    let relay: RelayName
  }

  private let courier: any Courier
  private let logger: Logger
  private let queued: AsyncStream<Forward>
  private let queue: AsyncStream<Forward>.Continuation
  let dropped = DroppedReceipts()
  /// Queued, and not yet given to the courier.
  private let waiting = Atomic<Int>(0)

  package init(courier: any Courier, logger: Logger) {
    self.courier = courier
    self.logger = logger
    (queued, queue) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.queuedMax))
  }

  /// Queues the receipt for a message that came from `relay`.
  func send(_ receipt: DeliveryReceipt, to relay: RelayName) {
    waiting.add(1, ordering: .relaxed)
    switch queue.yield(Forward(receipt: receipt, relay: relay)) {
    case .enqueued: return
    case .dropped: dropped.count(1, .queueFull)
    // Behind the end.
    default: dropped.count(1, .stopped)
    }
    waiting.subtract(1, ordering: .relaxed)
  }

  /// Until the process stops and the queue is empty, or `farewell` has passed.
  package func run() async throws {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.forwardAll() }
      group.addTask { [queue] in
        // Only cancellation throws here: then it is over.
        try? await gracefulShutdown()
        queue.finish()
        await Pause.for(Self.farewell)
      }
      await group.next()
      group.cancelAll()
    }
    let left = waiting.exchange(0, ordering: .relaxed)
    if left > 0 { dropped.count(left, .stopped) }
  }

  private func forwardAll() async {
    await withTaskGroup(of: Void.self) { group in
      var underWay = 0
      for await forward in queued {
        if underWay == Self.underWayMax { await group.next() } else { underWay += 1 }
        waiting.subtract(1, ordering: .relaxed)
        group.addTask { await self.send(forward) }
      }
    }
  }

  private func send(_ forward: Forward) async {
    let receipt = forward.receipt
    do throws(Problem) {
      try await courier.sendReceipt(
        for: receipt.timestamp, from: receipt.source, to: receipt.destination, at: forward.relay)
    } catch {
      dropped.count(1, .peer)
      logger.debug(
        "a peer took no receipt", metadata: ["peer": "\(forward.relay)", "reason": "\(error.kind.rawValue)"])
    }
  }

  /// The acknowledgements of a few busy seconds, while a peer is slow.
  private static let queuedMax = 4096
  /// A peer that is well has taken a full queue by then.
  private static let farewell = Duration.seconds(5)
  /// Enough for a peer that is far away, few enough not to be a flood.
  private static let underWayMax = 32
}

/// Counts the receipts that do not reach their sender.
struct DroppedReceipts: Sendable {
  /// All are shown from the beginning.
  private let counters = Dictionary(
    uniqueKeysWithValues: ReceiptDropLabel.allCases.map { ($0, RelayMetric.receipts.dropped.counter($0)) })

  func count(_ count: Int, _ reason: ReceiptDropLabel) { counters[reason]?.increment(by: count) }
}
