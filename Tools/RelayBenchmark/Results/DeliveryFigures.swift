/// How long deliveries take, by who waits for what.
struct DeliveryFigures: Sendable, Encodable {
  /// From a message's submission, or from when it was due, until its sender was told *accepted*.
  let acceptedP50Millis: Double
  let acceptedP99Millis: Double
  /// From that word until its recipient had it; 0 when the recipient was first.
  let acceptedToDeliveredP50Millis: Double
  let acceptedToDeliveredP99Millis: Double
  /// Receipts delivered to senders, acknowledged and removed as messages are; their cost is part of the messages'.
  let receiptsPerSecond: Double
  /// Deliveries of the whole run whose code was checked and that were decrypted as a whole.
  let openedWhole: Int

  init(_ result: LiveResult) {
    acceptedP50Millis = result.submittedToAccepted.quantile(0.50).millis
    acceptedP99Millis = result.submittedToAccepted.quantile(0.99).millis
    acceptedToDeliveredP50Millis = result.acceptedToDelivered.quantile(0.50).millis
    acceptedToDeliveredP99Millis = result.acceptedToDelivered.quantile(0.99).millis
    receiptsPerSecond = result.seconds > 0 ? Double(result.receiptsMeasured) / result.seconds : 0
    openedWhole = result.opened
  }
}
