/// The cost of a message as a relay grows.
struct GrowthFigures: Sendable, Encodable {
  struct Point: Sendable, Encodable {
    let count: Int
    let perSecond: Double
    let p50Millis: Double
    let cpuSecondsPerThousand: CPUPerThousand
    /// Statements of all relays over PostgreSQL; nil where they were not counted.
    let statementsPerRequest: Double?

    init(count: Int, _ result: LoadResult) {
      self.count = count
      perSecond = result.perSecond
      p50Millis = result.latency.quantile(0.5).millis
      cpuSecondsPerThousand = CPUPerThousand(
        Dictionary(uniqueKeysWithValues: result.usage.cpuSeconds.map { ($0.rawValue, $1) }), count: result.measured)
      statementsPerRequest = result.usage.statements.map { Double($0) / Double(max(1, result.measured)) }
    }
  }
  /// Ascending: messages for accounts of the relay.
  let accounts: [Point]
  /// Ascending: messages for accounts of peers.
  let peers: [Point]

  /// CPU of a message at each point behind the first, in the first's.
  var ofTheFirst: [Double] {
    [accounts, peers].flatMap { points in
      points.dropFirst().map { $0.cpuSecondsPerThousand.total / points[0].cpuSecondsPerThousand.total }
    }
  }
}
