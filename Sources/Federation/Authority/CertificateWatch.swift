package import Logging
import Metrics
package import RelayCore
import RelayHTTP
import RelayMetrics
import RelayWork
import ServiceLifecycle
import Synchronization

/// Warns before certificates end, in metrics and in the log (docs/federation.md, "Before certificates end").
package final class CertificateWatch: Service {
  private struct GaugeKey: Hashable {
    let holder: RelayName?
    let kind: WatchedCertificate.Kind
  }

  private struct State {
    var alarms = CertificateAlarms()
    var gauges: [GaugeKey: Gauge] = [:]
  }

  private let certificates: @Sendable () -> [WatchedCertificate]
  private let interval: Duration
  private let clock: WallClock
  private let logger: Logger
  private let state = Mutex(State())

  /// - Parameter certificates: all that are to be watched now.
  package init(
    interval: Duration = .seconds(60), clock: WallClock, logger: Logger,
    certificates: @escaping @Sendable () -> [WatchedCertificate]
  ) {
    self.certificates = certificates
    self.interval = interval
    self.clock = clock
    self.logger = logger
  }

  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      for await _ in Periodic(every: interval) { look() }
    }
  }

  /// Looks at every certificate once.
  func look() {
    let now = clock.now()
    let watched = certificates()
    let due = state.withLock { state in
      measure(watched, now, &state.gauges)
      return state.alarms.due(among: watched, now: now)
    }
    for alarm in due { warn(alarm.certificate, alarm.stage, now) }
  }

  /// For a CA and its successor, the gauge shows the one that ends first.
  private func measure(_ watched: [WatchedCertificate], _ now: Timestamp, _ gauges: inout [GaugeKey: Gauge]) {
    let groups = Dictionary(grouping: watched) { GaugeKey(holder: $0.holder, kind: $0.kind) }
    for (key, certificates) in groups {
      let gauge =
        gauges[key]
        ?? RelayMetric.certificates.expires.gauge(.holder(key.holder?.text), .kind(key.kind.word))
      gauges[key] = gauge
      let end = certificates.map(\.validUntil).min() ?? now
      gauge.record((end.millis - now.millis) / 1000)
    }
    for (key, gauge) in gauges where groups[key] == nil {
      gauge.destroy()
      gauges[key] = nil
    }
  }

  private func warn(_ certificate: WatchedCertificate, _ stage: CertificateStage, _ now: Timestamp) {
    let days = (certificate.validUntil.millis - now.millis) / Timestamp.millisPerDay
    var metadata: Logger.Metadata = [
      "holder": "\(certificate.holder?.text ?? "own")", "kind": "\(certificate.kind.word)",
      "until": "\(certificate.validUntil.iso8601)", "remedy": "\(certificate.remedy)",
    ]
    if stage == .over {
      let whom = if case .listener = certificate.kind { "clients refuse it" } else { "federation with it fails" }
      logger.error("a certificate has ended: \(whom)", metadata: metadata)
    } else {
      metadata["days"] = "\(days)"
      logger.warning("a certificate ends soon", metadata: metadata)
    }
  }
}
