/// The cost of connections that do nothing.
struct IdleFigures: Sendable, Encodable {
  let isTLS: Bool
  let connections: Int
  /// Resident memory of the relay: before the first connection, and with all of them open.
  let emptyResidentMiB: Double
  let fullResidentMiB: Double
  /// The difference, for each connection.
  let kibibytesEach: Double
  let connectsPerSecond: Double
  /// CPU seconds of the relay, for each 1,000 connections opened.
  let cpuSecondsPerThousandConnects: Double
  /// CPU milliseconds in a second for each connection that is open and does nothing: of the relay, of PostgreSQL and of
  /// Redis.
  let idleMillisEach: IdleCPU
  /// Statements that PostgreSQL ran in a minute in which no connection did anything, for all of them together; nil where
  /// they were not counted.
  let idleStatementsPerMinute: Double?
  /// From the relay's death until its successor could serve, and until all devices were connected again.
  let secondsToServe: Double
  let secondsToAllConnected: Double
}

/// CPU milliseconds in a second for each connection, by the server that spends them.
struct IdleCPU: Sendable, Encodable {
  let relay: Double
  let postgres: Double
  let redis: Double

  /// - Parameters:
  ///   - relay: CPU seconds of the process that holds the connections.
  ///   - stores: those of the other servers.
  init(relay: Double, stores: ServerUsage, seconds: Double, connections: Int) {
    func each(_ cpuSeconds: Double) -> Double { cpuSeconds * 1000 / seconds / Double(max(1, connections)) }
    self.relay = each(relay)
    postgres = each(stores.cpuSeconds[.postgres] ?? 0)
    redis = each(stores.cpuSeconds[.redis] ?? 0)
  }
}
