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
  /// nil for a closed loop.
  let pacePerSecond: Int?
  let title: String
  /// Answered with success, or delivered and acknowledged, within the window.
  let requests: Int
  let seconds: Double
  let perSecond: Double
  /// To the answer, or to the delivery.
  let p50Millis: Double
  let p99Millis: Double
  let longestMillis: Double
  let cpuSecondsPerThousand: CPUPerThousand
  /// Switches of the relays' threads, voluntary and not.
  let switchesPerRequest: Double
  /// System calls of the relays; nil where they were not counted.
  let systemCallsPerRequest: Double?
  /// Statements that PostgreSQL ran for the relays, one for a whole batch; nil where they were not counted.
  let statementsPerRequest: Double?
  /// 0...1, of all processors: what processes took that have nothing to do with the benchmark.
  let machineShareOfOthers: Double
  /// Rows that the whole run added or took, counted in the database and equal to what was answered; of deliveries, rows
  /// of messages that came and went; of look-ups none.
  let rowsConfirmed: Int
  /// The most that each relay has had resident up to the end of the scenario.
  let peakResidentMiB: [String: Double]
  /// nil where nobody is connected.
  let delivery: DeliveryFigures?
  /// nil where nobody is looked up.
  let lookUps: LookUpFigures?

  init(
    _ measurement: Measurement, _ result: LoadResult, peakResident: [ServerClass: Int], lookUps: LookUpFigures? = nil
  ) {
    self.init(
      measurement, requests: result.measured, seconds: result.seconds, latency: result.latency, usage: result.usage,
      rowsConfirmed: result.rowsChanged, peakResident: peakResident, delivery: nil, lookUps: lookUps)
  }

  init(_ measurement: Measurement, _ result: LiveResult, peakResident: [ServerClass: Int]) {
    self.init(
      measurement, requests: result.measured, seconds: result.seconds, latency: result.submittedToDelivered,
      usage: result.usage, rowsConfirmed: result.accepted, peakResident: peakResident,
      delivery: DeliveryFigures(result), lookUps: nil)
  }

  private init(
    _ measurement: Measurement, requests: Int, seconds: Double, latency: LatencyHistogram, usage: ServerUsage,
    rowsConfirmed: Int, peakResident: [ServerClass: Int], delivery: DeliveryFigures?, lookUps: LookUpFigures?
  ) {
    scenario = measurement.scenario
    pacePerSecond = measurement.pacePerSecond
    title = measurement.title
    self.requests = requests
    self.seconds = seconds
    perSecond = seconds > 0 ? Double(requests) / seconds : 0
    p50Millis = latency.quantile(0.50).millis
    p99Millis = latency.quantile(0.99).millis
    longestMillis = latency.longest.millis
    cpuSecondsPerThousand = CPUPerThousand(
      Dictionary(uniqueKeysWithValues: usage.cpuSeconds.map { ($0.rawValue, $1) }), count: requests)
    let each = Double(max(1, requests))
    switchesPerRequest = Double(usage.switches) / each
    systemCallsPerRequest = usage.systemCallsPerSecond.map { $0 * seconds / each }
    statementsPerRequest = usage.statements.map { Double($0) / each }
    machineShareOfOthers = usage.otherSeconds / (seconds * Double(Machine.processors))
    self.rowsConfirmed = rowsConfirmed
    peakResidentMiB = Dictionary(
      uniqueKeysWithValues: peakResident.map { ($0.rawValue, Double($1) / Double(1 << 20)) })
    self.delivery = delivery
    self.lookUps = lookUps
  }
}

/// Rows that one session inserted, a commit for each statement.
struct BareInsertFigures: Sendable, Encodable {
  let rowsPerStatement: Int
  let rows: Int
  let seconds: Double
  let rowsPerSecond: Double
  /// Of a statement with its commit, by which the disk shows.
  let p50Millis: Double
  let p99Millis: Double
  let cpuSecondsPerThousand: CPUPerThousand

  init(
    rows: Int, rowsPerStatement: Int, seconds: Double, latency: LatencyHistogram, postgresSeconds: Double,
    clientSeconds: Double
  ) {
    self.rowsPerStatement = rowsPerStatement
    self.rows = rows
    p50Millis = latency.quantile(0.50).millis
    p99Millis = latency.quantile(0.99).millis
    self.seconds = seconds
    rowsPerSecond = seconds > 0 ? Double(rows) / seconds : 0
    cpuSecondsPerThousand = CPUPerThousand(
      [ServerClass.postgres.rawValue: postgresSeconds, "client": clientSeconds], count: rows)
  }
}
