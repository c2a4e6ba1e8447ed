import DequeModule
package import Logging
import Metrics
package import RelayCore
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Tells peers that messages of their accounts have arrived here, behind the back of the client that acknowledged them.
///
/// Best effort: a receipt that its peer does not take, or that finds its queue full, is dropped and counted. Each peer
/// has a queue and places of its own: one that is slow holds up no other. A process that is told to stop goes on for
/// some seconds and counts what it still has then; what a killed one had is lost.
package final class ReceiptForwarder: Service {
  fileprivate struct Lane {
    var waiting = Deque<DeliveryReceipt>()
    var underWay = 0
  }

  fileprivate struct State {
    /// The lanes of peers for which something waits or is under way.
    var lanes: [RelayName: Lane] = [:]
    var waiting = 0
    var hasEnded = false
  }

  private let courier: any Courier
  private let logger: Logger
  private let state = Mutex(State())
  let dropped = DroppedReceipts()

  package init(courier: any Courier, logger: Logger) {
    self.courier = courier
    self.logger = logger
  }

  /// Queues the receipt for a message that came from `relay`.
  func send(_ receipt: DeliveryReceipt, to relay: RelayName) {
    let (loss, begins) = state.withLock { state -> (ReceiptDropLabel?, Bool) in
      guard !state.hasEnded else { return (.stopped, false) }
      var lane = state.lanes[relay] ?? Lane()
      guard state.waiting < Self.waitingMax, lane.waiting.count < Self.waitingMaxOfPeer else {
        return (.queueFull, false)
      }
      lane.waiting.append(receipt)
      state.waiting += 1
      let begins = lane.underWay < Self.underWayMax
      if begins { lane.underWay += 1 }
      state.lanes[relay] = lane
      return (nil, begins)
    }
    if let loss { dropped.count(1, loss) }
    if begins { Task.ofNobody { await self.forwardAll(to: relay) } }
  }

  /// Until the process stops and the queues are empty, or `farewell` has passed.
  package func run() async throws {
    // Only cancellation throws here: then it is over.
    try? await gracefulShutdown()
    state.withLock { $0.hasEnded = true }
    await Pause.poll(every: .milliseconds(20), until: .now + Self.farewell) { state.withLock { $0.lanes.isEmpty } }
    let left = state.withLock { state in
      defer { state.lanes = state.lanes.mapValues { Lane(underWay: $0.underWay) } }
      defer { state.waiting = 0 }
      return state.waiting
    }
    if left > 0 { dropped.count(left, .stopped) }
  }

  private func forwardAll(to relay: RelayName) async {
    while let receipt = state.withLock({ $0.next(for: relay) }) { await send(receipt, at: relay) }
  }

  private func send(_ receipt: DeliveryReceipt, at relay: RelayName) async {
    do throws(Problem) {
      try await courier.sendReceipt(for: receipt.timestamp, from: receipt.source, to: receipt.destination, at: relay)
    } catch {
      dropped.count(1, .peer)
      logger.debug("a peer took no receipt", metadata: ["peer": "\(relay)", "reason": "\(error.kind.rawValue)"])
    }
  }

  /// The acknowledgements of a few busy seconds, while peers are slow.
  private static let waitingMax = 16_384
  private static let waitingMaxOfPeer = 4096
  /// A peer that is well has taken a full queue by then.
  private static let farewell = Duration.seconds(5)
  /// To one peer. Enough for one that is far away, few enough not to be a flood.
  private static let underWayMax = 32
}

extension ReceiptForwarder.State {
  /// - Returns: nil when nothing waits for `relay`: then one fewer is under way.
  fileprivate mutating func next(for relay: RelayName) -> DeliveryReceipt? {
    guard var lane = lanes[relay] else { return nil }
    let receipt = lane.waiting.popFirst()
    if receipt == nil { lane.underWay -= 1 } else { waiting -= 1 }
    lanes[relay] = lane.underWay > 0 || !lane.waiting.isEmpty ? lane : nil
    return receipt
  }
}

/// Counts the receipts that do not reach their sender.
struct DroppedReceipts: Sendable {
  /// All are shown from the beginning.
  private let counters = Dictionary(
    uniqueKeysWithValues: ReceiptDropLabel.allCases.map { ($0, RelayMetric.receipts.dropped.counter($0)) })

  func count(_ count: Int, _ reason: ReceiptDropLabel) { counters[reason]?.increment(by: count) }
}
