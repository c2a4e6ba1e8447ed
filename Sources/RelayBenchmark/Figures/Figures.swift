// What one run of the benchmark found, as `--json` writes it.

/// CPU seconds per 1,000 requests or rows.
struct CPUPerThousand: Sendable, Encodable {
  let total: Double
  /// By what the processes do; those that did nothing are there too.
  let byProcess: [String: Double]

  init(_ seconds: [String: Double], count: Int) {
    let thousands = Double(max(1, count)) / 1000
    byProcess = seconds.mapValues { $0 / thousands }
    total = seconds.values.reduce(0, +) / thousands
  }
}

struct ScenarioFigures: Sendable, Encodable {
  let scenario: Scenario
  let title: String
  /// Answered with success within the window.
  let requests: Int
  let seconds: Double
  let perSecond: Double
  let p50Millis: Double
  let p99Millis: Double
  let longestMillis: Double
  let cpuSecondsPerThousand: CPUPerThousand
  /// What the total is to stay below.
  let aim: Double?
  /// 0...1, of all processors: what processes took that have nothing to do with the benchmark.
  let machineShareOfOthers: Double
  /// Rows that the whole run added or took, counted in the database and equal to what was answered.
  let rowsConfirmed: Int
  /// The most that each relay has had resident up to the end of the scenario.
  let peakResidentMiB: [String: Double]

  init(_ scenario: Scenario, _ result: LoadResult, peakResident: [ServerClass: Int]) {
    self.scenario = scenario
    title = scenario.title
    requests = result.measured
    seconds = result.seconds
    perSecond = result.perSecond
    p50Millis = result.latency.quantile(0.50).millis
    p99Millis = result.latency.quantile(0.99).millis
    longestMillis = result.latency.longest.millis
    cpuSecondsPerThousand = CPUPerThousand(
      Dictionary(uniqueKeysWithValues: result.usage.cpuSeconds.map { ($0.rawValue, $1) }), count: result.measured)
    aim = scenario.aim
    machineShareOfOthers = result.usage.otherSeconds / (result.seconds * Double(Machine.processors))
    rowsConfirmed = result.rowsChanged
    peakResidentMiB = Dictionary(
      uniqueKeysWithValues: peakResident.map { ($0.rawValue, Double($1) / Double(1 << 20)) })
  }
}

struct BareInsertFigures: Sendable, Encodable {
  let rows: Int
  let seconds: Double
  let rowsPerSecond: Double
  let cpuSecondsPerThousand: CPUPerThousand

  init(rows: Int, seconds: Double, postgresSeconds: Double, clientSeconds: Double) {
    self.rows = rows
    self.seconds = seconds
    rowsPerSecond = seconds > 0 ? Double(rows) / seconds : 0
    cpuSecondsPerThousand = CPUPerThousand(
      [ServerClass.postgres.rawValue: postgresSeconds, "client": clientSeconds], count: rows)
  }
}

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

/// What the way to the peer adds to a message's latency at a steady pace.
struct Hop: Sendable, Encodable {
  let p50Millis: Double
  let p99Millis: Double

  /// - Returns: nil unless both paced scenarios were measured.
  init?(_ scenarios: [ScenarioFigures]) {
    guard let near = scenarios.first(where: { $0.scenario == .messagesLocalPaced }),
      let far = scenarios.first(where: { $0.scenario == .messagesFederatedPaced })
    else { return nil }
    p50Millis = far.p50Millis - near.p50Millis
    p99Millis = far.p99Millis - near.p99Millis
  }
}

struct BenchmarkReport: Sendable, Encodable {
  let machine: Machine
  let settings: BenchmarkSettings
  /// Of PostgreSQL.
  let postgresSettings: [String: String]
  let scenarios: [ScenarioFigures]
  let bareInsert: BareInsertFigures?
  let handshakes: HandshakeFigures?
  let ratios: Ratios?
  let hop: Hop?
}

extension Duration {
  var millis: Double { self / .milliseconds(1) }
}
