import Metrics
import RelayMetrics
import Synchronization

/// The metrics of the directory in memory (docs/directory.md, "Metrics").
final class DirectoryMetrics: Sendable {
  private let entries = RelayMetric.directory.entries.gauge()
  private let bytes = RelayMetric.directory.bytes.gauge()
  private let lag = RelayMetric.directory.lag.gauge()
  private let changes = RelayMetric.directory.changes.counter()
  private let checks = RelayMetric.directory.checks.counter()
  private let drifted = RelayMetric.directory.drift.counter()
  /// When the last reading began that reached the feed's end; nil before the first.
  private let current = Mutex<ContinuousClock.Instant?>(nil)

  /// The table shows what was committed before `instant`.
  func isCurrent(asOf instant: ContinuousClock.Instant) { current.withLock { $0 = instant } }
  func changed(_ count: Int) { changes.increment(by: count) }
  func checked() { checks.increment() }
  func repaired(_ count: Int) { drifted.increment(by: count) }

  func show(_ table: TokenTable, now: ContinuousClock.Instant) {
    entries.record(table.count)
    bytes.record(table.byteCount)
    guard let current = current.withLock({ $0 }) else { return }
    lag.record((now - current) / .seconds(1))
  }
}
