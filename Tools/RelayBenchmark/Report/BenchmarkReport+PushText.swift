extension BenchmarkReport {
  /// Empty where it was not measured.
  var pushTable: [String] {
    guard let push else { return [] }
    let header = [
      "push gateway, \(push.connections) connections", "per s", "p50 ms", "p99 ms", "CPU s/1,000", "per CPU s",
      "Sygnal",
    ]
    let rows = push.rates.map { rate in
      [
        rate.provider.title, Self.number(rate.perSecond, 0), Self.number(rate.p50Millis, 2),
        Self.number(rate.p99Millis, 2), Self.number(rate.cpuSecondsPerThousand, 3), Self.number(rate.perCPUSecond, 0),
        Self.number(rate.provider.sygnal, 0),
      ]
    }
    let (queue, isolation) = (push.queue, push.isolation)
    return [""] + Self.table(header, rows) + [
      "",
      "\(queue.jobs) pushes that wait, of \(queue.connections) requests: \(Self.number(queue.emptyResidentMiB, 0)) MiB "
        + "become \(Self.number(queue.fullResidentMiB, 0)) MiB, \(Self.number(queue.kibibytesEach, 1)) KiB each.",
      "A provider that is silent is sent no more after \(Self.number(isolation.secondsToHalt, 1)) s; meanwhile FCM took "
        + "\(Self.number(isolation.beside.perSecond, 0)) pushes/s at a p99 of \(Self.number(isolation.beside.p99Millis, 2)) ms "
        + "(\(Self.number(isolation.alone.perSecond, 0))/s and \(Self.number(isolation.alone.p99Millis, 2)) ms alone).",
    ]
  }
}
