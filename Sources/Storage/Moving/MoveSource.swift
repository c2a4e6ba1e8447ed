import Foundation
import GRDB
import RelayCore

/// The embedded store that is moved. Relays may work on it.
struct MoveSource: Sendable {
  let store: SQLiteStorage

  func columns() async throws(StoreError) -> [String: [String]] {
    try await store.read { db in
      var columns: [String: [String]] = [:]
      for table in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'") {
        columns[table] = try db.columns(in: table).map(\.name)
      }
      return columns
    }
  }

  /// The next rows behind `key`, in the order of keys; the first ones for nil.
  func page(_ plan: MovePlan, after key: [MovedValue]?) async throws(StoreError) -> [MovedRow] {
    let table = plan.table
    let names = plan.columns.map { "\"\($0.name)\"" }.joined(separator: ", ")
    let keys = plan.key.map { "\"\($0.name)\"" }.joined(separator: ", ")
    let places = plan.key.map { _ in "?" }.joined(separator: ", ")
    let conditions = [table.condition, key.map { _ in "(\(keys)) > (\(places))" }].compactMap { $0 }
    let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
    let sql = "SELECT \(names) FROM \(table.name) \(filter) ORDER BY \(keys) LIMIT \(table.pageRows)"
    return try await store.read { db in
      let arguments = StatementArguments((key ?? []).map(\.databaseValue))
      return try Row.fetchAll(db, sql: sql, arguments: arguments).map { row in
        plan.row(row.databaseValues.map(MovedValue.init))
      }
    }
  }

  /// The days that rows of `table` are of, and how far each counter has come.
  func days(of table: String) async throws(StoreError) -> ClosedRange<Int64>? {
    try await store.read { db in
      let row = try db.row("SELECT min(day), max(day) FROM \(sql: table)")
      guard let row, let first = row.optionalInteger(0), let last = row.optionalInteger(1) else { return nil }
      return first...max(first, last)
    }
  }

  /// The last number that was given out, of each table whose numbers never come again.
  func lastNumbers() async throws(StoreError) -> [String: Int64] {
    try await store.read { db in
      var numbers: [String: Int64] = [:]
      for row in try db.rows("SELECT name, seq FROM sqlite_sequence") {
        numbers[try row.text(0)] = try row.integer(1)
      }
      return numbers
    }
  }

  /// Whether contact tokens are sealed. - Throws: `.unavailable` while they are being sealed.
  func isSealed() async throws(StoreError) -> Bool {
    let state = try await store.tokenState()
    guard !state.isUnderWay else {
      throw .unavailable(reason: "its contact tokens are being sealed: run `relay storage seal-contacts` first")
    }
    return state.sealedKey != nil
  }

  func listingGeneration() async throws(StoreError) -> Int64 {
    try await store.read { db in try db.revision(.listingGeneration) }
  }

  func isMarkedMoved() async throws(StoreError) -> Bool {
    try await store.read { db in
      try db.row("SELECT 1 FROM relay_schema WHERE version = \(SchemaMark.moved.rawValue)") != nil
    }
  }

  func unmark() async throws(StoreError) {
    try await store.write { db in
      try db.run("DELETE FROM relay_schema WHERE version = \(SchemaMark.moved.rawValue)")
    }
  }

  /// From then on no relay serves it.
  func markMoved(at now: Timestamp) async throws(StoreError) {
    let mark = SchemaMark.moved
    try await store.write { db in
      try db.run(
        """
        INSERT INTO relay_schema (version, name, applied, usable_from)
        VALUES (\(mark.rawValue), \(mark.name), \(now), \(mark.rawValue))
        ON CONFLICT DO NOTHING
        """)
    }
  }
}

extension MovedValue {
  fileprivate init(_ value: DatabaseValue) {
    switch value.storage {
    case .null: self = .null
    case .int64(let value): self = .integer(value)
    case .double(let value): self = Int64(exactly: value).map { .integer($0) } ?? .null
    case .string(let text): self = .text(text)
    case .blob(let data): self = .bytes([UInt8](data))
    }
  }

  fileprivate var databaseValue: DatabaseValue {
    switch self {
    case .null: .null
    case .integer(let value): value.databaseValue
    case .text(let text): text.databaseValue
    case .bytes(let bytes): Data(bytes).databaseValue
    }
  }
}
