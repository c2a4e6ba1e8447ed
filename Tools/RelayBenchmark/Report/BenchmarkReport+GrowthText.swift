extension BenchmarkReport {
  /// Empty where it was not measured.
  var growthTable: [String] {
    guard let growth else { return [] }
    let header = ["messages for", "per s", "p50 ms", "CPU s/1,000", "of the first", "statements"]
    let kinds = [("accounts", growth.accounts), ("peers", growth.peers)]
    let rows = kinds.flatMap { kind, points in
      points.map { point in
        let first = points[0].cpuSecondsPerThousand.total
        return [
          "\(point.count) \(kind)", Self.number(point.perSecond, 0), Self.number(point.p50Millis, 2),
          Self.number(point.cpuSecondsPerThousand.total, 3),
          Self.number(first > 0 ? point.cpuSecondsPerThousand.total / first : 0, 2),
          Self.counted(point.statementsPerRequest, 2),
        ]
      }
    }
    return [""] + Self.table(header, rows)
  }
}
