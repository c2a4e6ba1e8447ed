import Foundation
import RelayCore
import RelayWork

/// How this process is doing, for several who look: one look at the metrics serves all that ask within a second, and
/// the doctor is asked again only when what it found is old.
actor ConsoleLook {
  private let name: String
  private let readiness: Readiness
  private let registry: PrometheusRegistry
  private var earlier: ProcessLook?
  private var latest: ProcessLook?
  private var examination: Task<[ConsoleFinding], Never>?
  private var found: (findings: [ConsoleFinding], at: ContinuousClock.Instant)?

  init(name: String, readiness: Readiness, registry: PrometheusRegistry) {
    self.name = name
    self.readiness = readiness
    self.registry = registry
  }

  /// Rates are those since the look before, which is made now where it is missing or old.
  func report(_ ranked: RankedSendersRow?) async -> (report: TopReport, reasons: [String: String]) {
    if latest.map({ .now - $0.time > Self.oldLook }) ?? true {
      earlier = await look(nil)
      // Cut short only for a page that nobody waits for any more.
      await Pause.for(.seconds(1))
      latest = await look(ranked)
    } else if let last = latest, .now - last.time > Self.freshLook {
      let next = await look(ranked)
      (earlier, latest) = (last, next)
    }
    let after = latest ?? earlier
    return (
      TopReport(name, [(Self.place, earlier, after, after == nil ? "no look yet" : nil)]), after?.reasons ?? [:]
    )
  }

  private func look(_ ranked: RankedSendersRow?) async -> ProcessLook {
    let reasons = await readiness.reasons()
    return ProcessLook(
      url: Self.place, page: MetricsPage(registry.exposition()), time: .now,
      wallSeconds: Date().timeIntervalSince1970, isReady: reasons.isEmpty, reasons: reasons, senders: ranked)
  }

  /// - Parameter sources: are asked where what was found is old, once for all that wait.
  func findings(_ sources: any ConsoleSources) async -> [ConsoleFinding] {
    if let found, .now - found.at < Self.oldFindings { return found.findings }
    let running = examination ?? Task { await sources.findings() }
    examination = running
    let findings = await running.value
    (examination, found) = (nil, (findings, .now))
    return findings
  }

  private static let place = "this process"
  private static let freshLook = Duration.seconds(1)
  private static let oldLook = Duration.seconds(30)
  private static let oldFindings = Duration.seconds(20)
}
