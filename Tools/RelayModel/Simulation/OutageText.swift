/// Outcomes of simulations as tables. A row is one run, under its name.
enum OutageText {
  static func table(of runs: [(name: String, outcome: OutboxSimulation.Outcome)]) -> TextTable {
    TextTable(
      header: [
        "peer", "first breaker opens after s", "last after s", "failed requests", "probes", "most that waited",
        "found again after s", "outbox empty after s", "half of all messages within s", "99 of 100 within s",
        "refused", "lost",
      ],
      rows: runs.map { name, outcome in
        [
          name, seconds(outcome.opened.min()), seconds(outcome.opened.max()), "\(outcome.failedRequests)",
          "\(outcome.probes)", Numbers.whole(outcome.samples.map(\.value).max() ?? 0), seconds(outcome.closed.min()),
          seconds(outcome.emptyAfter), Numbers.short(outcome.waits.quantile(0.5)),
          Numbers.short(outcome.waits.quantile(0.99)), "\(outcome.refused)",
          "\(outcome.submitted - outcome.accounted)",
        ]
      })
  }

  static func table(of runs: [(name: String, outcome: PushSimulation.Outcome)]) -> TextTable {
    TextTable(
      header: [
        "push service", "breaker opens after s", "attempts meanwhile", "most that waited", "found again after s",
        "all woken after s", "99 of 100 within s", "at other services", "lost",
      ],
      rows: runs.map { name, outcome in
        let others = outcome.waits.dropFirst().map { $0.quantile(0.99) }.max()
        return [
          name, seconds(outcome.opened.min()), "\(outcome.attemptsWhileAway)",
          Numbers.whole(outcome.samples.map(\.value).max() ?? 0), seconds(outcome.closed.min { abs($0) < abs($1) }),
          seconds(outcome.emptyAfter), Numbers.short(outcome.waits.first?.quantile(0.99) ?? 0), seconds(others),
          "\(outcome.asked - outcome.accounted)",
        ]
      })
  }

  static func table(of runs: [(name: String, outcome: ReconnectSimulation.Outcome)]) -> TextTable {
    TextTable(
      header: [
        "devices", "lost a connection", "attempts", "failed", "connections in the busiest second",
        "half are back within s", "99 of 100 within s", "all after s", "without connection at the end",
      ],
      rows: runs.map { name, outcome in
        [
          name, Numbers.whole(Double(outcome.lost)), Numbers.whole(Double(outcome.attempts)),
          Numbers.whole(Double(outcome.failures)), Numbers.whole(Double(outcome.mostInASecond)),
          Numbers.short(outcome.waits.quantile(0.5)), Numbers.short(outcome.waits.quantile(0.99)),
          seconds(outcome.allAfter), Numbers.whole(Double(outcome.apart)),
        ]
      })
  }

  private static func seconds(_ value: Double?) -> String { value.map(Numbers.short) ?? "-" }
}
