import Metrics
import RelayCore

/// What the operator sees of attachments: never whose, never which.
struct AttachmentMetrics: Sendable {
  private let received = Counter(label: "relay_attachment_bytes_total", dimensions: [("direction", "in")])
  private let sent = Counter(label: "relay_attachment_bytes_total", dimensions: [("direction", "out")])

  func received(_ bytes: Int) { received.increment(by: bytes) }
  func sent(_ bytes: Int) { sent.increment(by: bytes) }

  /// Uploads, downloads and new attachments that were refused; the label is one of `Problem`'s codes.
  func refused(_ kind: Problem.Kind) {
    Counter(label: "relay_attachment_refusals_total", dimensions: [("reason", kind.rawValue)]).increment()
  }

  /// Attachments whose blobs were removed.
  func removed(_ count: Int) { Counter(label: "relay_attachments_removed_total").increment(by: count) }

  /// Attachments whose blobs the last run could not remove.
  func stuck(_ count: Int) { Gauge(label: "relay_attachments_stuck").record(count) }
}
