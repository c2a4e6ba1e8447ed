import Metrics

/// What the operator sees of oblivious look-ups (docs/directory.md, "Metrics").
final class ObliviousMetrics: Sendable {
  private let answers = Counter(label: "relay_oblivious_answers_total")
  private let outputs = Counter(label: "relay_oblivious_evaluated_total")
  private let pending = Gauge(label: "relay_oblivious_pending")
  private let ranges = Gauge(label: "relay_oblivious_ranges_pending")
  private let lag = Gauge(label: "relay_oblivious_lag_seconds")

  init() {
    // They are shown from the start, so that a rise from nothing is seen.
    answers.increment(by: 0)
    outputs.increment(by: 0)
  }

  /// Elements that clients sent have been evaluated.
  func answered(_ count: Int) { answers.increment(by: count) }
  /// Contacts have got their outputs.
  func evaluated(_ count: Int) { outputs.increment(by: count) }

  /// - Parameters:
  ///   - tokens: that are known to be without an output.
  ///   - ranges: of 256, that have not been looked at.
  func show(pending tokens: Int, ranges: Int) {
    pending.record(tokens)
    self.ranges.record(ranges)
  }

  func show(lag: Duration) { self.lag.record(lag / .seconds(1)) }
}
