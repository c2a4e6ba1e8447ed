import Metrics
import RelayMetrics

/// The metrics of oblivious look-ups (docs/directory.md, "Metrics").
final class ObliviousMetrics: Sendable {
  private let answers = RelayMetric.oblivious.answers.counter()
  private let outputs = RelayMetric.oblivious.evaluated.counter()
  private let pending = RelayMetric.oblivious.pending.gauge()
  private let ranges = RelayMetric.oblivious.rangesPending.gauge()
  private let lag = RelayMetric.oblivious.lag.gauge()

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
