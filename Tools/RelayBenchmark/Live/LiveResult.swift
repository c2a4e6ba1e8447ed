import NIOCore

/// The figures of one run.
struct LiveResult: Sendable {
  /// Messages within the window, by when they were delivered, which is when they were acknowledged.
  let seconds: Double
  let submittedToDelivered: LatencyHistogram
  let acceptedToDelivered: LatencyHistogram
  /// The latency of submissions, until the sender was told.
  let submittedToAccepted: LatencyHistogram
  let receiptsMeasured: Int
  /// Messages of the whole run: before, within and after the window. As many were delivered, and as many receipts.
  let accepted: Int
  /// Envelopes whose code was checked and that were decrypted as a whole.
  let opened: Int
  let failures: [String: Int]
  /// The usage of all server processes, within the window.
  let usage: ServerUsage

  var measured: Int { Int(submittedToDelivered.count) }

  /// On the tally's event loop.
  init(_ tally: LiveTally, _ usage: ServerUsage) {
    seconds = Double(tally.submissions.window.nanoseconds) / 1e9
    submittedToDelivered = tally.submittedToDelivered
    acceptedToDelivered = tally.acceptedToDelivered
    submittedToAccepted = tally.submissions.latency
    receiptsMeasured = tally.receiptsMeasured
    accepted = tally.accepted
    opened = tally.opened
    failures = tally.submissions.failures
    self.usage = usage
  }
}
