extension BenchmarkReport {
  /// Empty where nothing was delivered.
  var deliveryTable: [String] {
    let rows = scenarios.compactMap { figures in
      figures.delivery.map { delivery in
        [
          figures.title, Self.number(delivery.acceptedP50Millis, 2), Self.number(delivery.acceptedP99Millis, 2),
          Self.number(figures.p50Millis, 2), Self.number(figures.p99Millis, 2),
          Self.number(delivery.acceptedToDeliveredP50Millis, 2), Self.number(delivery.acceptedToDeliveredP99Millis, 2),
          Self.number(delivery.receiptsPerSecond, 0),
        ]
      }
    }
    guard !rows.isEmpty else { return [] }
    let header = [
      "ms", "submit to accept p50", "p99", "submit to deliver p50", "p99", "accept to deliver p50", "p99", "receipts/s",
    ]
    return [""] + Self.table(header, rows)
  }

  /// Empty where no connection was idle.
  var idleTable: [String] {
    guard !idleConnections.isEmpty else { return [] }
    let header = [
      "idle WebSockets", "count", "KiB each", "connects/s", "CPU s/1,000 connects",
      "idle: relay CPU ms/s, 1,000",
      "PostgreSQL", "Redis", "statements/min", "s from kill to serving",
      "s to all connected",
    ]
    return [""]
      + Self.table(
        header,
        idleConnections.map { idle in
          [
            idle.isTLS ? "TLS" : "plain", "\(idle.connections)", Self.number(idle.kibibytesEach, 1),
            Self.number(idle.connectsPerSecond, 0),
            Self.number(idle.cpuSecondsPerThousandConnects, 3), Self.number(idle.idleMillisEach.relay * 1000, 2),
            Self.number(idle.idleMillisEach.postgres * 1000, 2), Self.number(idle.idleMillisEach.redis * 1000, 2),
            Self.counted(idle.idleStatementsPerMinute, 0), Self.number(idle.secondsToServe, 2),
            Self.number(idle.secondsToAllConnected, 2),
          ]
        })
  }

  /// Empty where nothing was measured.
  var stormTable: [String] {
    guard !storms.isEmpty else { return [] }
    let header = [
      "reconnect storm over TLS", "devices", "s of window", "handshakes", "resumed", "CPU ms each", "s to all back",
    ]
    return [""]
      + Self.table(
        header,
        storms.map { storm in
          [
            storm.way.title, "\(storm.devices)", "\(storm.windowSeconds)", "\(storm.handshakes)",
            Self.number(storm.resumedShare * 100, 1) + " %", Self.number(storm.cpuMillisEach, 3),
            Self.number(storm.secondsToAllBack, 2),
          ]
        })
  }
}
