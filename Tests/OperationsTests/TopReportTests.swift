import CoreMetrics
import RelayCore
import RelayMetrics
import TestTags
import Testing

@testable import Operations

/// `relay top` makes a report of two looks at a page of metrics.
@Suite(.tags(.unit)) struct TopReportTests {
  private static func look(_ registry: PrometheusRegistry, at time: ContinuousClock.Instant) -> ProcessLook {
    ProcessLook(
      url: "a", page: MetricsPage(registry.exposition()), time: time, wallSeconds: 0, isReady: true, reasons: [:],
      senders: nil)
  }

  @Test func `wakes whose push failed are told from those that needed none`() throws {
    let registry = PrometheusRegistry()
    let provider = ("provider", WakeProvider.fcm.word)
    CoreMetrics.Gauge(label: RelayMetric.wakes.waiting.name, dimensions: [provider], factory: registry).record(3)
    let start = ContinuousClock.now
    let before = Self.look(registry, at: start)
    for outcome in WakeAttempt.Outcome.allCases {
      let labels = [provider, ("outcome", outcome.rawValue)]
      Counter(label: RelayMetric.wakes.attempts.name, dimensions: labels, factory: registry).increment(by: 2)
    }
    let after = Self.look(registry, at: start + .seconds(2))
    let report = TopReport("a", [(url: "a", before: before, after: after, fault: nil)])
    let lane = try #require(report.push.first { $0.name == "wakes" })
    // Dead, superseded, refused, put off.
    #expect(lane.failedPerSecond == 4 && lane.waiting == 3, "\(lane)")
  }
}
