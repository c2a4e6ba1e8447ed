/// Accepted local messages beside bare inserts of the same bytes.
struct Ratios: Sendable, Encodable {
  /// Messages accepted for each row inserted bare, in the same time.
  let rate: Double
  /// CPU of an accepted message in that of a bare row.
  let cpu: Double

  /// - Returns: nil when either was not measured.
  init?(_ scenarios: [ScenarioFigures], _ bare: BareInsertFigures?) {
    guard let bare, let local = scenarios.first(where: { $0.scenario == .messagesLocal }), bare.rowsPerSecond > 0,
      bare.cpuSecondsPerThousand.total > 0
    else { return nil }
    rate = local.perSecond / bare.rowsPerSecond
    cpu = local.cpuSecondsPerThousand.total / bare.cpuSecondsPerThousand.total
  }
}

/// The latency that a longer way adds to a message at a steady pace.
struct Hop: Sendable, Encodable {
  let p50Millis: Double
  let p99Millis: Double

  /// - Returns: nil unless both were measured.
  init?(_ scenarios: [ScenarioFigures], from nearScenario: Scenario, to farScenario: Scenario) {
    guard let near = scenarios.first(where: { $0.scenario == nearScenario }),
      let far = scenarios.first(where: { $0.scenario == farScenario })
    else { return nil }
    p50Millis = far.p50Millis - near.p50Millis
    p99Millis = far.p99Millis - near.p99Millis
  }
}

struct BenchmarkReport: Sendable, Encodable {
  let machine: Machine
  let settings: BenchmarkSettings
  /// The settings of PostgreSQL; empty if it was not started.
  var postgresSettings: [String: String] = [:]
  var scenarios: [ScenarioFigures] = []
  var bareInsert: BareInsertFigures?
  var handshakes: HandshakeFigures?
  var handshakeFlood: HandshakeFloodFigures?
  /// Plain, then over TLS; empty where nothing was measured.
  var idleConnections: [IdleFigures] = []
  /// Two of each size, roomy and full; empty where nothing was measured.
  var tables: [TableFigures] = []
  /// nil where it was not measured.
  var push: PushFigures?
  /// Ascending by entries; empty where nothing was measured.
  var directoryStarts: [DirectoryStartFigures] = []
  var freshness: [FreshnessFigures] = []
  /// nil where it was not measured.
  var oblivious: ObliviousFigures?
  var ratios: Ratios?
  /// To the peer, until a message is accepted.
  var hop: Hop?
  /// To another process of the operator, until a message is delivered.
  var hopAcross: Hop?
}

extension Duration {
  var millis: Double { self / .milliseconds(1) }
}
