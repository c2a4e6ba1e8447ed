extension BenchmarkReport {
  /// Empty where it was not measured.
  var overloadTable: [String] {
    guard let overload else { return [] }
    let header = [
      "offered, of the peak of \(Self.number(overload.peakPerSecond, 0))/s", "offered/s", "sent/s", "accepted/s",
      "of the peak", "p50 ms", "p99 ms", "refused/s", "with Retry-After", "p50 ms", "late/s", "CPU s/1,000",
      "s to recover",
    ]
    let rows = ([overload.normal] + overload.overloads).map { load in
      let isOverload = load.times > 1
      return [
        "\(Self.number(load.times, 1)) times", Self.number(load.offeredPerSecond, 0),
        Self.number(load.sentPerSecond, 0), Self.number(load.goodputPerSecond, 0), Self.number(load.share, 2),
        Self.number(load.p50Millis, 1), Self.number(load.p99Millis, 1),
        Self.number(load.refusedPerSecond, 0), Self.number(load.refusedUntilShare, 2),
        Self.number(load.refusedP50Millis, 1), Self.number(load.latePerSecond, 0),
        Self.number(load.cpuSecondsPerThousand, 3),
        isOverload ? load.secondsToRecover.map { Self.number($0, 2) } ?? "not recovered" : "",
      ]
    }
    return [""] + Self.table(header, rows)
  }
}
