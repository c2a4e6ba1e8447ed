import Metrics
import RelayMetrics

/// Counts the receipts that do not reach their sender.
struct DroppedReceipts: Sendable {
  /// All are shown from the beginning.
  private let counters = Dictionary(
    uniqueKeysWithValues: ReceiptDropLabel.allCases.map { ($0, RelayMetric.receipts.dropped.counter($0)) })

  func count(_ count: Int, _ reason: ReceiptDropLabel) { counters[reason]?.increment(by: count) }
}
