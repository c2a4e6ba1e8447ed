import RelayClient

/// The floor that accepted messages are compared with: the same bytes, put durably into a table of the same columns in
/// the same PostgreSQL by one session, with no index, no relay and no recipient to look up. Each statement is a commit:
/// of a full batch, or of a single row.
struct BareInsert: Sendable {
  let servers: ServerGroup
  let settings: BenchmarkSettings
  let rowsPerStatement: Int

  func run() async throws -> BareInsertFigures {
    try await Cancellation.watch { try await run($0) }
  }

  private func run(_ cancellation: Cancellation) async throws -> BareInsertFigures {
    let (servers, settings, rowsPerStatement) = (servers, settings, rowsPerStatement)
    return try await servers.postgres.with(servers.alpha.database) { database in
      try database.execute("CREATE TABLE bare_rows (LIKE messages)")
      try database.execute("CHECKPOINT")
      try database.prepare("bare_insert", Self.statement)
      var batch = Batch(rows: rowsPerStatement, bodyBytes: settings.bodyBytes)
      let figures = try Self.measure(settings, rowsPerStatement, { try servers.readUsage() }) {
        try cancellation.check()
        try database.execute(prepared: "bare_insert", batch.nextParameters())
      }
      let stored = try database.integer("SELECT count(*) FROM bare_rows")
      guard stored == batch.rowsMade else {
        throw BenchmarkFailure("bare insert: \(batch.rowsMade) rows were sent, \(stored) are stored")
      }
      try database.execute("DROP TABLE bare_rows")
      return figures
    }
  }

  private static func measure(
    _ settings: BenchmarkSettings, _ rowsPerStatement: Int, _ readUsage: () throws -> ServerUsage,
    _ insert: () throws -> Void
  ) throws -> BareInsertFigures {
    let clock = ContinuousClock()
    let warm = clock.now + .seconds(settings.warmUpSeconds)
    while clock.now < warm { try insert() }
    let (usageBefore, ownBefore, start) = (try readUsage(), ProcessUsage.cpuSecondsOfThread(), clock.now)
    let end = start + .seconds(settings.seconds)
    var latency = LatencyHistogram()
    var begun = start
    while begun < end {
      try insert()
      let now = clock.now
      latency.record(nanoseconds: UInt64(max(0, (now - begun) / .nanoseconds(1))))
      begun = now
    }
    let seconds = (begun - start) / .seconds(1)
    let postgres = (try readUsage() - usageBefore).cpuSeconds[.postgres] ?? 0
    return BareInsertFigures(
      rows: Int(latency.count) * rowsPerStatement, rowsPerStatement: rowsPerStatement, seconds: seconds,
      latency: latency, postgresSeconds: postgres,
      clientSeconds: ProcessUsage.cpuSecondsOfThread() - ownBefore)
  }

  private static let statement = """
    INSERT INTO bare_rows
      (account, device, sequence, day, type, source, source_device, sent, message, fingerprint)
    SELECT account, device, sequence, current_date, type, source, source_device, sent, message, fingerprint
    FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::smallint[], $5::bigint[], $6::integer[], $7::bigint[],
      $8::bytea[], $9::uuid[])
      AS row (account, device, sequence, type, source, source_device, sent, message, fingerprint)
    """
}

/// Parameters of one statement: an array for each column.
private struct Batch {
  private let rows: Int
  private let messages: [UInt8]
  private var sequence: Int64 = 0
  private(set) var rowsMade = 0

  init(rows: Int, bodyBytes: Int) {
    self.rows = rows
    let body = randomBytes(bodyBytes)
    messages = Self.array(rows, type: 17) { _, bytes in Self.append(body, to: &bytes) }
  }

  mutating func nextParameters() -> [[UInt8]] {
    defer {
      sequence += Int64(rows)
      rowsMade += rows
    }
    let first = sequence
    return [
      integers(as: Int64.self, type: 20) { 99_920_000_000 + first + $0 },
      integers(as: Int32.self, type: 23) { _ in 1 },
      integers(as: Int64.self, type: 20) { first + $0 },
      integers(as: Int16.self, type: 21) { _ in 1 },
      integers(as: Int64.self, type: 20) { _ in 99_910_000_000 },
      integers(as: Int32.self, type: 23) { _ in 1 },
      integers(as: Int64.self, type: 20) { RelayClient.now() + $0 },
      messages,
      Self.array(rows, type: 2950) { _, bytes in Self.append(randomBytes(16), to: &bytes) },
    ]
  }

  private func integers<Number: FixedWidthInteger>(
    as _: Number.Type, type: Int32, _ value: (Int64) -> Int64
  ) -> [UInt8] {
    Self.array(rows, type: type) { row, bytes in
      withUnsafeBytes(of: Number(truncatingIfNeeded: value(Int64(row))).bigEndian) {
        Self.append(Array($0), to: &bytes)
      }
    }
  }

  /// An array in PostgreSQL's binary form: dimensions, whether nulls may occur, element type, length, lower bound; then
  /// the elements.
  private static func array(_ count: Int, type: Int32, _ element: (Int, inout [UInt8]) -> Void) -> [UInt8] {
    var bytes: [UInt8] = []
    for number in [1, 0, type, Int32(count), 1] { append(number, to: &bytes) }
    for row in 0..<count { element(row, &bytes) }
    return bytes
  }

  private static func append(_ element: [UInt8], to bytes: inout [UInt8]) {
    append(Int32(element.count), to: &bytes)
    bytes += element
  }

  private static func append(_ number: Int32, to bytes: inout [UInt8]) {
    withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
  }
}
