import Metrics
import RelayCore
import RelayMetrics

/// The metrics of one part of the directory in a process that asks for it (docs/directory.md, "Parts").
struct PartMetrics: Sendable {
  private let held: Gauge
  private let holders: Gauge
  private let unanswered: Counter

  init(_ part: DirectoryPartition) {
    let label = PartLabel(value: part.text)
    held = RelayMetric.parts.entries.gauge(label)
    holders = RelayMetric.parts.processes.gauge(label)
    unanswered = RelayMetric.parts.unanswered.counter(label)
    unanswered.increment(by: 0)
  }

  /// - Parameter entries: that a process with the part holds.
  func holds(_ entries: Int) { held.record(entries) }
  /// - Parameter count: of the processes with the part that answer.
  func answering(_ count: Int) { holders.record(count) }
  /// A request got no answer that is of use.
  func failed() { unanswered.increment() }
}
