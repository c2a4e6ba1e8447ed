import NIOCore

/// The common counts of the senders and recipients of one run. Belongs to their event loop.
final class LiveTally {
  /// The submissions: their latencies end with the relay's word that it has accepted.
  let submissions = LoadTally()
  /// From when a message was submitted, or due, until it was delivered; from when its sender was told *accepted*.
  /// Both for deliveries within the window.
  private(set) var submittedToDelivered = LatencyHistogram()
  private(set) var acceptedToDelivered = LatencyHistogram()
  /// Receipts delivered to senders within the window.
  private(set) var receiptsMeasured = 0
  /// The deliveries of the whole run.
  private(set) var delivered = 0
  private(set) var receipts = 0
  /// Envelopes that were opened as a whole, known when the connections are closed.
  private(set) var opened = 0
  /// The connections are being closed: their ends say nothing.
  private(set) var isOver = false

  var phase: LoadTally.Phase { submissions.phase }
  var accepted: Int { submissions.successes }
  /// All that was accepted has arrived, and its senders know.
  var isSettled: Bool { delivered == accepted && receipts == accepted }

  func failed(_ reason: String) { if !isOver { submissions.failed(reason) } }
  func end() { isOver = true }

  /// - Parameter time: since it was submitted.
  func delivered(after time: TimeAmount) {
    delivered += 1
    if phase == .measured { submittedToDelivered.record(time) }
  }

  /// - Parameter time: zero when the recipient had it before the sender was told.
  func delivered(afterAcceptance time: TimeAmount) { if phase == .measured { acceptedToDelivered.record(time) } }

  func opened(_ count: Int) { opened += count }

  func receipted() {
    receipts += 1
    if phase == .measured { receiptsMeasured += 1 }
  }
}

extension LatencyHistogram {
  fileprivate mutating func record(_ time: TimeAmount) { record(nanoseconds: UInt64(max(0, time.nanoseconds))) }
}
