import NIOCore

/// The common counts of the connections of one run. Belongs to their event loop.
final class LoadTally {
  enum Phase {
    /// Requests are sent, their latency is not recorded.
    case warmUp
    case measured
    /// No request is sent any more; those under way are waited for.
    case stopping
  }

  private(set) var phase = Phase.warmUp
  private(set) var latency = LatencyHistogram()
  /// From the first run on, warm-up and stopping included: all that the server said it did.
  private(set) var successes = 0
  private(set) var rowsChanged = 0
  /// By what went wrong, in words that hold nothing of a request.
  private(set) var failures: [String: Int] = [:]
  private var windowStart = NIODeadline.now()
  private(set) var window = TimeAmount.zero

  func beginMeasuring() {
    phase = .measured
    windowStart = .now()
  }

  func stop() {
    if phase == .measured { window = .now() - windowStart }
    phase = .stopping
  }

  func succeeded(after time: TimeAmount, rowsChanged rows: Int) {
    successes += 1
    rowsChanged += rows
    if phase == .measured { latency.record(nanoseconds: UInt64(max(0, time.nanoseconds))) }
  }

  func failed(_ reason: String) { failures[reason, default: 0] += 1 }
}
