import Metrics

extension LiveMetrics {
  /// A client has left so much unacknowledged that nothing more is sent on its connection.
  func heldTooMany() { Counter(label: "relay_connections_full_total").increment() }

  /// Acknowledged messages that were gone after a try whose outcome is not known: their senders are told at most once,
  /// and so not now.
  func receiptsUnknown(_ count: Int) {
    guard count > 0 else { return }
    Counter(label: "relay_receipts_dropped_total", dimensions: [("reason", "unknown")]).increment(by: count)
  }
}
