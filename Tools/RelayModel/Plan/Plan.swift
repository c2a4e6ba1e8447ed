/// What one part needs.
struct PlannedPart: Sendable, Encodable, Equatable {
  let name: String
  /// Processes, or servers.
  let count: Double
  /// Busy in the busiest hour, of all of them together.
  let busyCores: Double
  /// To buy, so that no more than the allowed share is busy.
  let cores: Double
  let memoryGiB: Double
  let diskGiB: Double
  /// In the busiest hour, both directions.
  let networkMegabits: Double
}

/// Something that has an end, whatever more is bought of the rest.
struct Bound: Sendable, Encodable, Equatable {
  enum Name: String, Sendable, CaseIterable, Encodable {
    case postgresCores = "PostgreSQL's cores"
    case walBytes = "PostgreSQL's WAL, bytes"
    case walFlushes = "PostgreSQL's WAL, flushes"
    case postgresConnections = "PostgreSQL's sessions"
    case redisCores = "Redis's one core"
    case processMemory = "memory of one process"
    case processCores = "cores of one process"
    case processes = "processes"
    case peers = "peers of one process"
  }
  let name: Name
  /// In `unit`, in the busiest hour.
  let need: Double
  let limit: Double
  let unit: String
  /// 1 is all of it.
  var share: Double { need > 0 ? need / max(limit, 1e-9) : 0 }

  private enum CodingKeys: String, CodingKey { case name, need, limit, unit, share }
  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(name, forKey: .name)
    try container.encode(need, forKey: .need)
    try container.encode(limit, forKey: .limit)
    try container.encode(unit, forKey: .unit)
    try container.encode(share, forKey: .share)
  }
}

/// A load, and what it needs.
struct Plan: Sendable, Encodable {
  let load: Load
  let hardware: Hardware
  let processes: Double
  /// Messages submitted in a second of the busiest hour, for each device they go to.
  let messagesPerSecond: Double
  let rowsPerSecond: Double
  let redisOperationsPerSecond: Double
  let connections: Double
  let parts: [PlannedPart]
  /// The most used first.
  let bounds: [Bound]
  /// The accounts at which the first bound is reached, all else of the load being the same; nil: beyond 10,000 million.
  let accountsAtFirstBound: Double?
  let coreHoursPerMonth: Double
  let costPerMonth: Double
  /// Constants that nobody has measured.
  let assumed: [String]
  /// Operations at rates beyond those at which they were measured.
  let outsideMeasured: [String]

  /// The first to be in the way: it is already if its share is above 1.
  var firstBound: Bound? { bounds.first }
  var isPossible: Bool { (firstBound?.share ?? 0) <= 1 }
}
