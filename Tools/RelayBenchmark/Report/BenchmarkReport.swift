/// Accepted local messages beside bare inserts of the same bytes.
struct Ratios: Sendable, Encodable {
  /// Messages accepted for each row inserted bare, in the same time.
  let rate: Double
  /// CPU of an accepted message in that of a bare row.
  let cpu: Double

  /// CPU of an accepted local message in that of PostgreSQL for a single durable row of the same bytes, by the pace; 0
  /// for the closed loop.
  let singleRows: [Int: Double]

  /// - Returns: nil when either was not measured.
  init?(_ scenarios: [ScenarioFigures], _ bare: BareInsertFigures?, single: BareInsertFigures?) {
    guard let bare, let local = scenarios.first(where: { $0.scenario == .messagesLocal }), bare.rowsPerSecond > 0,
      bare.cpuSecondsPerThousand.total > 0
    else { return nil }
    rate = local.perSecond / bare.rowsPerSecond
    cpu = local.cpuSecondsPerThousand.total / bare.cpuSecondsPerThousand.total
    let row = single?.cpuSecondsPerThousand.byProcess[ServerClass.postgres.rawValue] ?? 0
    let messages = scenarios.filter { [.messagesLocal, .messagesLocalPaced].contains($0.scenario) && row > 0 }
    singleRows = Dictionary(
      messages.map { ($0.pacePerSecond ?? 0, $0.cpuSecondsPerThousand.total / row) }, uniquingKeysWith: { $1 })
  }
}

/// The latency that a longer way adds to a message at a steady pace.
struct Hop: Sendable, Encodable {
  let pacePerSecond: Int
  let p50Millis: Double
  let p99Millis: Double

  /// - Returns: one for each pace at which both were measured.
  static func all(_ scenarios: [ScenarioFigures], from nearScenario: Scenario, to farScenario: Scenario) -> [Hop] {
    scenarios.filter { $0.scenario == nearScenario }.compactMap { near in
      scenarios.first { $0.scenario == farScenario && $0.pacePerSecond == near.pacePerSecond }.flatMap { far in
        near.pacePerSecond.map { Hop(pacePerSecond: $0, from: near, to: far) }
      }
    }
  }

  private init(pacePerSecond: Int, from near: ScenarioFigures, to far: ScenarioFigures) {
    self.pacePerSecond = pacePerSecond
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
  /// A row a commit.
  var singleInsert: BareInsertFigures?
  var handshakes: HandshakeFigures?
  var handshakeFlood: HandshakeFloodFigures?
  /// Plain, then over TLS; empty where nothing was measured.
  var idleConnections: [IdleFigures] = []
  /// Empty where nothing was measured.
  var storms: [StormFigures] = []
  /// Two of each size, roomy and full; empty where nothing was measured.
  var tables: [TableFigures] = []
  /// nil where it was not measured.
  var push: PushFigures?
  /// Ascending by entries; empty where nothing was measured.
  var directoryStarts: [DirectoryStartFigures] = []
  var freshness: [FreshnessFigures] = []
  /// nil where it was not measured.
  var oblivious: ObliviousFigures?
  /// nil where it was not measured.
  var parts: PartsFigures?
  /// nil where they were not measured.
  var overload: OverloadFigures?
  var growth: GrowthFigures?
  /// nil where it is not installed, too.
  var ejabberd: EjabberdFigures?
  var ratios: Ratios?
  /// To the peer, until a message is accepted.
  var hops: [Hop] = []
  /// To another process of the operator, until a message is delivered.
  var hopsAcross: [Hop] = []
  var goals: [GoalFigures] = []
}

extension Duration {
  var millis: Double { self / .milliseconds(1) }
}
