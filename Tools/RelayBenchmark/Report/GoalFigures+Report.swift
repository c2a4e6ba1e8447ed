// The goals of a run, in the order of docs/performance.md.

extension GoalFigures {
  /// - Returns: the goals whose figures `report` has.
  static func all(of report: BenchmarkReport) -> [GoalFigures] {
    let found: [GoalFigures?] =
      messages(report) + deliveries(report) + lookUps(report) + connections(report) + pushes(report)
      + overload(report)
    return found.compactMap(\.self)
  }

  private static func atMost(_ goal: Double, _ name: String, _ measured: Double?) -> GoalFigures? {
    measured.map { GoalFigures(name, $0, .atMost, goal) }
  }

  private static func atLeast(_ goal: Double, _ name: String, _ measured: Double?) -> GoalFigures? {
    measured.map { GoalFigures(name, $0, .atLeast, goal) }
  }

  private static func messages(_ report: BenchmarkReport) -> [GoalFigures?] {
    let accepted = report.cpu(.messagesLocal)
    let online = report.ejabberd?.online.first { $0.pacePerSecond == 1000 }?.cpuSecondsPerThousand.total
    let hop = report.hops.first { $0.pacePerSecond == 1000 }
    return [
      atLeast(
        5, "ejabberd's offline store / accepted", report.ejabberd?.offline.cpuSecondsPerThousand.total / accepted),
      atMost(1.3, "accepted / a single durable row", report.ratios?.singleRows[0]),
      atMost(1, "accepted at 1,000/s / ejabberd's online, not stored", report.cpu(.messagesLocalPaced, 1000) / online),
      atMost(2, "accepted at 100/s / accepted", report.cpu(.messagesLocalPaced, 100) / accepted),
      atMost(4, "switches for a message at 100/s", report.figures(.messagesLocalPaced, 100)?.switchesPerRequest),
      atMost(3, "switches for a message at 1,000/s", report.figures(.messagesLocalPaced, 1000)?.switchesPerRequest),
      atMost(1.6, "stored at the peer / accepted", report.cpu(.messagesFederated) / accepted),
      atMost(2, "the hop at 1,000/s, ms added to p50", hop?.p50Millis),
      atMost(6, "the hop at 1,000/s, ms added to p99", hop?.p99Millis),
      atMost(1.2, "prekeys drawn, local / accepted", report.cpu(.prekeysLocal) / accepted),
      atMost(2.2, "prekeys drawn from the peer / accepted", report.cpu(.prekeysFederated) / accepted),
    ]
  }

  private static func deliveries(_ report: BenchmarkReport) -> [GoalFigures?] {
    let accepted = report.cpu(.messagesLocal)
    return [
      atMost(1.8, "delivered, with receipt / accepted", report.cpu(.deliveries) / accepted),
      atMost(2.2, "delivered across two processes / accepted", report.cpu(.deliveriesAcross) / accepted),
      atMost(1.6, "delivered, over WebSockets / accepted", report.cpu(.deliveriesSocket) / accepted),
    ]
  }

  private static func lookUps(_ report: BenchmarkReport) -> [GoalFigures?] {
    let ratios = report.scenarios.compactMap { $0.lookUps?.ratio }
    let peer = report.freshness.first { $0.place == .peer }
    return [
      atLeast(5, "contacts for each CPU second / HMGET's", ratios.min()),
      atLeast(0.9, "the directory's table / a loop in C", report.tables.map(\.ratio).min()),
      atMost(150, "a registration is found at a peer, ms, p50", peer?.p50Millis),
    ]
  }

  private static func connections(_ report: BenchmarkReport) -> [GoalFigures?] {
    let idle = { (isTLS: Bool) in report.idleConnections.first { $0.isTLS == isTLS }?.kibibytesEach }
    return [
      atMost(10, "an idle WebSocket, KiB", idle(false)),
      atMost(15, "an idle WebSocket over TLS, KiB", idle(true)),
      atMost(1000, "a known peer's handshake in a flood, ms, p99", report.handshakeFlood?.flooded.p99Millis),
    ]
  }

  private static func pushes(_ report: BenchmarkReport) -> [GoalFigures?] {
    (report.push?.rates ?? []).map { rate in
      let name = "pushes for each CPU second / Sygnal's on another machine: \(rate.provider.title)"
      return atLeast(10, name, rate.perCPUSecond / rate.provider.sygnal)
    }
  }

  private static func overload(_ report: BenchmarkReport) -> [GoalFigures?] {
    let loads = report.overload?.overloads ?? []
    let growth = (report.growth?.ofTheFirst ?? []).max { abs($0 - 1) < abs($1 - 1) }
    return [
      atLeast(0.8, "goodput in overload / the peak", loads.map(\.share).min()),
      atMost(5, "seconds to normal latency after overload", loads.map(recovery).max()),
      atMost(1.1, "CPU of a message as the operator grows / the first", growth),
    ]
  }

  /// The time measured is a bound of what took longer.
  private static func recovery(_ load: OverloadFigures.Load) -> Double {
    load.secondsToRecover ?? OverloadFigures.recoverySeconds
  }
}

extension BenchmarkReport {
  fileprivate func figures(_ scenario: Scenario, _ pacePerSecond: Int?) -> ScenarioFigures? {
    scenarios.first { $0.scenario == scenario && $0.pacePerSecond == pacePerSecond }
  }

  /// CPU seconds of all servers for each 1,000; nil where it was not measured.
  fileprivate func cpu(_ scenario: Scenario, _ pacePerSecond: Int? = nil) -> Double? {
    figures(scenario, pacePerSecond)?.cpuSecondsPerThousand.total
  }
}

/// nil where either was not measured, or the divisor is nothing.
private func / (dividend: Double?, divisor: Double?) -> Double? {
  guard let dividend, let divisor, divisor > 0 else { return nil }
  return dividend / divisor
}
