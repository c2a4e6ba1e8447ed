extension BenchmarkReport {
  /// Empty where it was not measured.
  var ejabberdTable: [String] {
    guard let ejabberd else { return [] }
    let header = ["ejabberd", "per s", "p50 ms", "p99 ms", "CPU s/1,000", "ejabberd", "PostgreSQL"]
    let rows = ([ejabberd.offline] + ejabberd.online).map { figure in
      let cpu = figure.cpuSecondsPerThousand
      return [
        figure.pacePerSecond.map { "online, not stored, \($0)/s" } ?? "offline, stored",
        Self.number(figure.perSecond, 0), figure.p50Millis.map { Self.number($0, 2) } ?? "",
        figure.p99Millis.map { Self.number($0, 2) } ?? "", Self.number(cpu.total, 3),
        Self.number(cpu.byProcess["ejabberd"] ?? 0, 3),
        Self.number(cpu.byProcess[ServerClass.postgres.rawValue] ?? 0, 3),
      ]
    }
    return [""] + Self.table(header, rows)
  }
}
