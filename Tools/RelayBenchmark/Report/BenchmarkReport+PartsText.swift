extension BenchmarkReport {
  /// Empty where it was not measured.
  var partsTable: [String] {
    guard let parts else { return [] }
    let header = [
      "look-ups of \(parts.tokensPerRequest) contacts", "directory", "a second", "p50 ms", "p99 ms", "CPU ms",
    ]
    let row = { (title: String, way: PartsFigures.Way) in
      [
        title, "\(parts.entries)", Self.number(way.perSecond, 0), Self.number(way.p50Millis, 2),
        Self.number(way.p99Millis, 2), Self.number(way.cpuMillis, 3),
      ]
    }
    return [""]
      + Self.table(header, [row("in one process", parts.whole), row("over \(parts.parts) parts", parts.inParts)])
      + [
        "",
        "Over \(parts.parts) parts a look-up costs \(Self.number(parts.cpuRatio, 2)) times the CPU time of one process.",
      ]
  }
}
