package import Logging
import RelayCore
import RelayHTTP
import RelayMetrics
import RelayWork

/// The word to the sender of an acknowledged message that it has arrived (reference 1.9).
struct DeliveryReceipt: Sendable, Equatable {
  /// The message's timestamp.
  let timestamp: Timestamp
  /// The device that has received it.
  let source: DeviceAddress
  /// The account that sent it.
  let destination: AccountNumber
  /// The peer that the sender is at; nil for ours.
  let relay: RelayName?

  /// - Returns: nil for what is not receipted: a notice, and an account's messages to itself.
  init?(for acknowledged: Envelope) {
    guard !acknowledged.type.isNotice, acknowledged.source.account != acknowledged.destination.account else {
      return nil
    }
    timestamp = acknowledged.timestamp
    source = acknowledged.destination
    destination = acknowledged.source.account
    relay = acknowledged.relay
  }
}

/// Tells senders that their messages have arrived.
///
/// Behind the client's back: the message is gone from its mailbox already, and a receipt that cannot be stored now
/// must not make the client think otherwise. While the store is away receipts wait in a queue. A receipt that is
/// dropped is counted.
package final class DeliveryReceipts: Sendable {
  private let intake: LocalIntake
  private let forwarder: ReceiptForwarder
  private let logger: Logger
  private let gathered: Batcher<DeliveryReceipt>

  /// - Parameter pause: before another try, while the store is away.
  package init(
    intake: LocalIntake, forwarder: ReceiptForwarder, pause: Duration = .seconds(1), logger: Logger
  ) {
    self.intake = intake
    self.forwarder = forwarder
    self.logger = logger
    gathered = Batcher(
      retryingBatchesOf: 200, waitingMax: Self.waitingMax, rest: .init(beforeRetry: pause)
    ) { receipts in
      await Self.store(receipts, intake, forwarder, logger)
    }
  }

  /// On return it is stored on the sender's devices if he is ours, or queued where the store is away; else it is
  /// queued for his relay.
  func send(_ receipt: DeliveryReceipt) async {
    if let relay = receipt.relay { return forwarder.send(receipt, to: relay) }
    queue(await Self.store([receipt], intake, forwarder, logger))
  }

  /// Sends them behind the back of the caller; what does not fit the queue is dropped and counted.
  func queue(_ receipts: [DeliveryReceipt]) {
    var ours: [DeliveryReceipt] = []
    for receipt in receipts {
      if let relay = receipt.relay { forwarder.send(receipt, to: relay) } else { ours.append(receipt) }
    }
    let taken = gathered.add(contentsOf: ours)
    if taken < ours.count { forwarder.dropped.count(ours.count - taken, .queueFull) }
  }

  /// So many acknowledged messages were gone after a try whose outcome is not known: their senders are told at most
  /// once, and so not now.
  func dropUnknown(_ count: Int) { forwarder.dropped.count(count, .unknown) }

  func settle(until deadline: ContinuousClock.Instant) async { await gathered.settle(until: deadline) }

  /// - Returns: those to be tried again: all, when the store is away. Storing one twice makes one of it.
  private static func store(
    _ receipts: [DeliveryReceipt], _ intake: LocalIntake, _ forwarder: ReceiptForwarder, _ logger: Logger
  ) async -> [DeliveryReceipt] {
    do throws(Problem) {
      try await intake.sendReceipts(receipts)
      return []
    } catch {
      guard error.kind != .unavailable else { return receipts }
      forwarder.dropped.count(receipts.count, .store)
      logger.error(
        "delivery receipts lost", metadata: ["count": "\(receipts.count)", "reason": "\(error.kind.rawValue)"])
      return []
    }
  }

  /// The acknowledgements of a few busy seconds, while the store is slow.
  private static let waitingMax = 20_000
}
