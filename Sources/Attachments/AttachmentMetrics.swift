import Metrics
import RelayCore
import RelayMetrics

/// The metrics of attachments: never whose, never which.
struct AttachmentMetrics: Sendable {
  private let received = RelayMetric.attachments.bytes.counter(.incoming)
  private let sent = RelayMetric.attachments.bytes.counter(.outgoing)

  func received(_ bytes: Int) { received.increment(by: bytes) }
  func sent(_ bytes: Int) { sent.increment(by: bytes) }

  /// Uploads, downloads and new attachments that were refused; the label is one of `Problem`'s codes.
  func refused(_ kind: Problem.Kind) {
    RelayMetric.attachments.refusals.counter(.reason(kind.rawValue)).increment()
  }

  /// Attachments whose blobs were removed.
  func removed(_ count: Int) { RelayMetric.attachments.removed.counter().increment(by: count) }

  /// Attachments whose blobs the last run could not remove.
  func stuck(_ count: Int) { RelayMetric.attachments.stuck.gauge().record(count) }
}
