package import Logging
package import RelayCore
import RelayMetrics

/// Removes acknowledged messages from their mailboxes, and tells their senders.
///
/// The receipt for an account of this relay is stored by the removal itself: no message is gone without it, however a
/// process ends. The receipt for a peer's account is queued behind the removal. A receipt that is dropped is counted.
package final class DeliveryReceipts: Sendable {
  /// A message that its device has received.
  struct Acknowledged: Sendable {
    let place: MailboxPlace
    /// nil for what is not receipted.
    let receipt: DeliveryReceipt?
    /// Whether a removal was tried before, and its outcome is not known.
    var mayBeGone = false
  }

  private let store: any MessageStore
  private let intake: LocalIntake
  private let forwarder: ReceiptForwarder
  private let logger: Logger

  package init(store: any MessageStore, intake: LocalIntake, forwarder: ReceiptForwarder, logger: Logger) {
    self.store = store
    self.intake = intake
    self.forwarder = forwarder
    self.logger = logger
  }

  /// A message that two connections name has one receipt.
  /// - Returns: what was removed by this call.
  func remove(_ acknowledged: [Acknowledged]) async throws(StoreError) -> Set<MailboxPlace> {
    var prepared: [PreparedReceipt?] = []
    defer { intake.settle(prepared.compactMap(\.self)) }
    // Else each sender that is not remembered would be read by itself, one after the other.
    if acknowledged.count > 1 { await intake.expect(acknowledged.compactMap(\.receipt)) }
    for message in acknowledged { prepared.append(try await prepare(message.receipt)) }
    let removed = try await store.remove(
      zip(acknowledged, prepared).map { MailboxRemoval($0.place, receipt: $1?.due) })
    var due = removed
    var (stored, unknown): ([PreparedReceipt], [PreparedReceipt]) = ([], [])
    for (message, prepared) in zip(acknowledged, prepared) {
      if due.remove(message.place) != nil {
        if let prepared { stored.append(prepared) }
        if let receipt = message.receipt, let relay = receipt.relay { forwarder.send(receipt, to: relay) }
      } else if message.mayBeGone, !removed.contains(message.place) {
        // Another acknowledgement has removed it, or a try of ours before. With the latter its receipt was stored, and
        // nobody was woken. A peer is told at most once, and so not now.
        if let prepared { unknown.append(prepared) }
        if message.receipt?.relay != nil { forwarder.dropped.count(1, .unknown) }
      }
    }
    intake.stored(stored)
    intake.wake(for: unknown)
    return removed
  }

  /// Removes a message for a caller who waits for the answer.
  ///
  /// A removal of unknown outcome is tried once more: the first try may have removed the message. Then the caller would
  /// find nothing when it comes again, and the sender would not hear of it.
  /// - Returns: false when it was gone before, or another acknowledgement is removing it.
  func remove(one message: Acknowledged) async throws(StoreError) -> Bool {
    do throws(StoreError) {
      return try await remove([message]).contains(message.place)
    } catch .unavailable {
      var again = message
      again.mayBeGone = true
      _ = try await remove([again])
      return true
    }
  }

  /// - Returns: nil where this store tells nobody.
  /// - Throws: `.unavailable` alone. A sender who cannot be read for another reason is told nothing: the message must
  ///   not stay for that.
  private func prepare(_ receipt: DeliveryReceipt?) async throws(StoreError) -> PreparedReceipt? {
    guard let receipt, receipt.relay == nil else { return nil }
    do throws(Problem) {
      return try await intake.prepare(receipt)
    } catch {
      guard error.kind != .unavailable else { throw .unavailable(reason: "a sender's mailbox cannot be looked at") }
      forwarder.dropped.count(1, .store)
      logger.error("a delivery receipt was lost", metadata: ["reason": "\(error.kind.rawValue)"])
      return nil
    }
  }
}
