import RelayCore

/// The PostgreSQL database that a store is moved into. No relay serves it before the move has ended.
struct MoveTarget: Sendable {
  let store: PostgresStorage

  /// Whether a store may be moved into a database.
  enum State: Sendable {
    case new
    case inUse
    /// Its tables are distributed among servers: rows are replaced by statements for one.
    case distributed
    /// A move is under way into it, from a source of this name.
    case marked(source: String)
  }

  /// Brings the schema up to date. - Returns: what else there is.
  func prepare() async throws(StoreError) -> State {
    try await store.migrate { _ in }
    if try await store.placement().isBegun { return .distributed }
    if let source = try await markedSource() { return .marked(source: source) }
    return try await isInUse() ? .inUse : .new
  }

  /// Whether it holds a store that somebody has used. - Precondition: it has its schema.
  func isInUse() async throws(StoreError) -> Bool {
    let used = try await rows(
      """
      SELECT (SELECT count(*) FROM accounts) + (SELECT count(*) FROM peers) + (SELECT count(*) FROM server_secrets)
        + (SELECT count(*) FROM notification_accounts)
      """)
    var row = used.cursor(row: 0)
    return try row.bigint() != 0
  }

  /// Marks it as one that is not to be served.
  /// - Parameter source: a name, by which a move goes on.
  func mark(source: String) async throws(StoreError) {
    let version = PostgresParameter(Int32(SchemaMark.moving.rawValue))
    _ = try await store.writeBulk([
      PostgresStep(
        once: """
          INSERT INTO relay_schema (version, name, applied, usable_from)
          VALUES (\(version), \(source), floor(extract(epoch FROM now()) * 1000)::bigint, \(version))
          """)
    ])
  }

  /// The source that is being moved into it; nil when no move is under way.
  func markedSource() async throws(StoreError) -> String? {
    let mark = PostgresStep(
      once: "SELECT name FROM relay_schema WHERE version = \(Int32(SchemaMark.moving.rawValue))")
    let found = try await store.readBulk(mark)
    return try found.first { (row) throws(StoreError) in try row.text() }
  }

  /// The types of the columns of each table.
  func types() async throws(StoreError) -> [String: [String: String]] {
    let found = try await rows(
      """
      SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL)
      FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND a.attnum > 0 AND NOT a.attisdropped
      """)
    let columns = try found.all { (row) throws(StoreError) in
      (table: try row.text(), name: try row.text(), type: try row.text())
    }
    var types: [String: [String: String]] = [:]
    for column in columns { types[column.table, default: [:]][column.name] = column.type }
    return types
  }

  func tablesWithTriggers() async throws(StoreError) -> Set<String> {
    let found = try await rows(
      "SELECT DISTINCT c.relname::text FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid WHERE NOT tgisinternal"
    )
    return Set(try found.all { (row) throws(StoreError) in try row.text() })
  }

  /// As `MoveSource.page`.
  func page(_ plan: MovePlan, after key: [MovedValue]?) async throws(StoreError) -> [MovedRow] {
    let table = plan.table
    let columns = plan.columns.map(\.form.read).joined(separator: ", ")
    let keys = plan.key.map(\.compared.column).joined(separator: ", ")
    let places = plan.key.enumerated().map { $1.compared.value("$\($0 + 1)::\($1.parameterType)") }
    let conditions = [table.condition, key.map { _ in "(\(keys)) > (\(places.joined(separator: ", ")))" }]
      .compactMap { $0 }
    let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
    let values = PostgresParameters { parameters in
      for value in key ?? [] { parameters.add(value) }
    }
    let found = try await store.readBulk(
      PostgresStep(
        .once("SELECT \(columns) FROM \(table.name) \(filter) ORDER BY \(keys) LIMIT \(table.pageRows)"), values))
    return try found.all { (row) throws(StoreError) in
      var values: [MovedValue] = []
      for column in plan.columns { values.append(try row.value(column.kind)) }
      return plan.row(values)
    }
  }

  /// Replaces the rows of `keys` by `rows`, as one transaction, and sets off no trigger: they were set off when the
  /// rows came into the source.
  func replace(_ keys: [[MovedValue]], by rows: [MovedRow], _ plan: MovePlan) async throws(StoreError) {
    var steps: [PostgresStep] = []
    if !keys.isEmpty { steps.append(Self.removal(of: keys, plan)) }
    if !rows.isEmpty { steps.append(Self.insertion(of: rows, plan)) }
    guard !steps.isEmpty else { return }
    if plan.hasTriggers {
      let table = plan.table.name
      steps.insert(PostgresStep(.once("ALTER TABLE \(table) DISABLE TRIGGER USER")), at: 0)
      steps.append(PostgresStep(.once("ALTER TABLE \(table) ENABLE TRIGGER USER")))
    }
    _ = try await store.writeBulk(steps)
  }

  private static func removal(of keys: [[MovedValue]], _ plan: MovePlan) -> PostgresStep {
    let arrays = plan.key.enumerated().map { "$\($0 + 1)::\($1.parameterType)[]" }.joined(separator: ", ")
    let names = plan.key.indices.map { "k\($0)" }
    let equal = zip(plan.key, names).map { "\($0.compared.column) = \($0.compared.value($1))" }
    return PostgresStep(
      .once(
        """
        DELETE FROM \(plan.table.name) USING unnest(\(arrays)) AS k (\(names.joined(separator: ", ")))
        WHERE \(equal.joined(separator: " AND "))
        """),
      PostgresParameters { parameters in
        for (index, column) in plan.key.enumerated() { parameters.add(keys.map { $0[index] }, column.kind) }
      })
  }

  private static func insertion(of rows: [MovedRow], _ plan: MovePlan) -> PostgresStep {
    var (columns, values): ([String], [String]) = ([], [])
    for (index, column) in plan.columns.enumerated() {
      for (name, value) in column.form.written {
        columns.append("\"\(name)\"")
        values.append(value.replacing(":v", with: "c\(index)"))
      }
    }
    let arrays = plan.columns.enumerated().map { "$\($0 + 1)::\($1.parameterType)[]" }.joined(separator: ", ")
    let names = plan.columns.indices.map { "c\($0)" }.joined(separator: ", ")
    return PostgresStep(
      .once(
        """
        INSERT INTO \(plan.table.name) (\(columns.joined(separator: ", "))) OVERRIDING SYSTEM VALUE
        SELECT \(values.joined(separator: ", ")) FROM unnest(\(arrays)) AS r (\(names))
        """),
      PostgresParameters { parameters in
        for (index, column) in plan.columns.enumerated() { parameters.add(rows.map { $0.values[index] }, column.kind) }
      })
  }

  private func rows(_ sql: String) async throws(StoreError) -> PostgresResult {
    try await store.readBulk(PostgresStep(.once(sql)))
  }
}

extension PostgresRow {
  fileprivate mutating func value(_ kind: MovedColumn.Kind) throws(StoreError) -> MovedValue {
    switch kind {
    case .integer: try optionalBigint().map { .integer($0) } ?? .null
    case .text: optionalText().map { .text($0) } ?? .null
    case .bytes: optionalBytes().map { .bytes($0) } ?? .null
    }
  }
}

extension PostgresParameters {
  fileprivate mutating func add(_ value: MovedValue) {
    append { bytes in
      switch value {
      case .null: false
      case .integer(let value): value.append(to: &bytes)
      case .text(let text): text.append(to: &bytes)
      case .bytes(let value): value.append(to: &bytes)
      }
    }
  }

  /// An array.
  fileprivate mutating func add(_ values: [MovedValue], _ kind: MovedColumn.Kind) {
    append { bytes in
      switch kind {
      case .integer: values.lazy.map { $0.integer }.appendArray(to: &bytes)
      case .text: values.lazy.map { $0.text }.appendArray(to: &bytes)
      case .bytes: values.lazy.map { $0.bytes }.appendArray(to: &bytes)
      }
      return true
    }
  }
}

extension MovedValue {
  fileprivate var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
  fileprivate var text: String? { if case .text(let text) = self { text } else { nil } }
  fileprivate var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
}
