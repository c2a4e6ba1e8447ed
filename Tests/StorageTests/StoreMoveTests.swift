import Foundation
import GRDB
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Every table of the embedded store goes to PostgreSQL, whatever is in it.
@Suite(.tags(.stores)) struct StoreMoveTests {
  private let clock = ManualClock(Sample.noon)
  /// In the sense of `day`.
  private static let firstDay: Int64 = 20_400

  private func withStores(
    _ body: (SQLiteStorage, PostgresStorage, StoreMove) async throws -> Void
  ) async throws {
    try await withPostgres(migrated: false) { target, _, _ in
      try await withTemporaryFolder { folder in
        let source = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock.wall)
        try await source.migrate { _ in }
        try await body(source, target, StoreMove(source, named: "here", to: target))
        await source.close()
      }
    }
  }

  /// Makes rows of every table that is moved. References lead to the row of the same index.
  private func fill(_ source: SQLiteStorage, rows: ClosedRange<Int>) async throws {
    let columns = try await MoveSource(store: source).columns()
    try await source.write { db in
      // As what came in any order leaves them.
      let triggers = try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'trigger'")
      for trigger in triggers { try db.execute(sql: "DROP TRIGGER \(trigger)") }
      for table in MovedTable.all {
        let names = try #require(columns[table.name])
        let types = try db.columns(in: table.name).map(\.type)
        for row in names.contains("singleton") ? 1...1 : rows {
          let values = zip(names, types).map { Self.value($0, $1, table.name, row) }
          try db.execute(
            sql: """
              INSERT OR REPLACE INTO \(table.name) (\(names.map { "\"\($0)\"" }.joined(separator: ", ")))
              VALUES (\(names.map { _ in "?" }.joined(separator: ", ")))
              """,
            arguments: StatementArguments(values))
        }
      }
    }
  }

  private static func value(_ column: String, _ type: String, _ table: String, _ row: Int) -> DatabaseValue {
    switch (column, type) {
    case ("singleton", _): 1.databaseValue
    case ("noted", _) where table == "crossings": (firstDay + Int64(row % 90)).databaseValue
    case ("day", _): (firstDay + Int64(row % 90)).databaseValue
    case ("revoked_serials", _): (row % 2 == 0 ? "" : "0a ff0\(row % 10)").databaseValue
    case ("devices", "TEXT"): (row % 2 == 0 ? "" : "1:111 2:\(row)").databaseValue
    case ("digest", _): (Int64.min + Int64(row) << 30).databaseValue
    case ("fingerprint", _): Data((0..<16).map { UInt8(truncatingIfNeeded: $0 + row * 7) }).databaseValue
    case ("name", _) where table == "server_secrets": "secret-\(row)".databaseValue
    case (_, "TEXT"): "ä-\(row)".databaseValue
    case (_, "BLOB"): Data([0, 255, UInt8(truncatingIfNeeded: row), UInt8(truncatingIfNeeded: row >> 8)]).databaseValue
    // A flag is one where it is not 0.
    default: (isFlag(column) ? row % 2 : row).databaseValue
    }
  }

  private static func isFlag(_ column: String) -> Bool {
    [
      "active", "supports_sms", "voice", "discoverable", "was_listed", "fetches_messages", "has_signed_prekey",
      "holds_messages", "implicit", "covers_master_only", "settled", "rests", "follows_call", "test", "forced",
      "permitted", "ours", "waits_while_idle",
    ].contains(column)
  }

  @Test func `rows of every table arrive, and what changes meanwhile is followed, to the last row`() async throws {
    try await withStores { source, target, move in
      try await fill(source, rows: 1...450)
      try await move.begin()
      guard case .movingIn = try await target.compatibility() else { throw TestFailure("it could be served") }
      let first = try await move.copy { _ in }
      #expect(first > 450 * 30)
      #expect(try await move.copy { _ in } == 0)

      // Rows that go, come, and are otherwise.
      try await source.write { db in
        try db.execute(sql: "DELETE FROM messages WHERE sequence % 3 = 0 OR sequence > 440")
        try db.execute(sql: "UPDATE accounts SET voice = 1 - voice, token = x'0102' WHERE account <= 10")
        try db.execute(sql: "UPDATE peers SET revoked_serials = 'aa bb', fault = NULL WHERE name = 'ä-7'")
        try db.execute(sql: "DELETE FROM notification_groups WHERE name = 'ä-9'")
      }
      try await fill(source, rows: 451...460)
      let again = try await move.copy { _ in }
      #expect(again > 150 && again < first)

      let digests = try await move.end(at: Sample.noon) { _ in }
      #expect(digests.count == MovedTable.all.count)
      #expect(digests.first { $0.table == "accounts" }?.rows == 460)
      guard case .usable = try await target.compatibility() else { throw TestFailure("it cannot be served") }
      guard case .moved = try await source.compatibility() else { throw TestFailure("the source could be served") }
      try await expectMade(target)
      await #expect(throws: MoveFailure.ended) { try await move.begin() }
      await #expect(throws: MoveFailure.ended) { try await move.cancel() }
    }
  }

  /// Checks the values that are not moved row by row.
  private func expectMade(_ target: PostgresStorage) async throws {
    for (sql, value) in [
      ("SELECT nextval('message_sequence')", 461), ("SELECT nextval('audit_log_id_seq')", 461),
      ("SELECT sum(contacts)::bigint FROM contact_counts", 460),
      ("SELECT sum(total)::bigint FROM attachment_charges", 460 * Int64(AttachmentQuota.chargeMin)),
      ("SELECT count(*) FROM peers WHERE revoked_serials = '{\"\\\\xaa\",\"\\\\xbb\"}'", 1),
      ("SELECT count(*) FROM confirmed_devices WHERE devices = '{1,2}' AND registration_ids[1] = 111", 230),
      ("SELECT count(*) FROM accounts WHERE voice AND account <= 10", 5),
      ("SELECT count(*) FROM messages WHERE day = date '1970-01-01' + \(Self.firstDay + 1)", 6),
      ("SELECT count(DISTINCT tableoid) FROM messages", 30),
    ] as [(String, Int64)] {
      var row = try await target.readBulk(PostgresStep(.once(sql))).cursor(row: 0)
      #expect(try row.bigint() == value, "\(sql)")
    }
    #expect(try await target.missingParts().isEmpty)
  }

  @Test func `a move that was broken off goes on, another one is refused, and one that has not ended is taken back`()
    async throws
  {
    try await withStores { source, target, move in
      try await fill(source, rows: 1...20)
      try await move.begin()
      let other = StoreMove(source, named: "elsewhere", to: target)
      await #expect(throws: MoveFailure.otherSource("here")) { try await other.begin() }
      // As if its process had ended behind the mark.
      try await MoveSource(store: source).markMoved(at: Sample.noon)
      guard case .moved = try await source.compatibility() else { throw TestFailure("the source could be served") }
      try await move.cancel()
      guard case .usable = try await source.compatibility() else { throw TestFailure("it was not taken back") }
      try await MoveSource(store: source).markMoved(at: Sample.noon)
      try await move.begin()
      _ = try await move.copy { _ in }
      _ = try await move.end(at: Sample.noon) { _ in }
      guard case .usable = try await target.compatibility() else { throw TestFailure("it cannot be served") }
    }
  }

  @Test func `where the database is gone that a store was moved to, the operator alone can take the move back`()
    async throws
  {
    try await withStores { source, target, move in
      try await fill(source, rows: 1...5)
      try await move.begin()
      try await MoveSource(store: source).markMoved(at: Sample.noon)
      try await withPostgres(migrated: false) { other, _, _ in
        let elsewhere = StoreMove(source, named: "here", to: other)
        for isMade in [false, true] {
          if isMade { try await other.migrate { _ in } }
          await #expect(throws: MoveFailure.otherTarget) { try await elsewhere.begin() }
          await #expect(throws: MoveFailure.otherTarget) { try await elsewhere.cancel() }
        }
        guard case .moved = try await source.compatibility() else { throw TestFailure("the source could be served") }
        try await elsewhere.cancel(isGone: true)
        guard case .usable = try await source.compatibility() else { throw TestFailure("it was not taken back") }
      }
      // The word of the operator does not count where it can be looked.
      _ = try await move.copy { _ in }
      _ = try await move.end(at: Sample.noon) { _ in }
      await #expect(throws: MoveFailure.ended) { try await move.cancel(isGone: true) }
    }
  }

  @Test func `a database that is in use is left alone`() async throws {
    try await withStores { _, target, move in
      try await target.migrate { _ in }
      #expect(try await target.savePeer(Sample.peer("beta")))
      await #expect(throws: MoveFailure.targetInUse) { try await move.begin() }
      guard case .usable = try await target.compatibility() else { throw TestFailure("it was changed") }
    }
  }

  @Test func `sealed values are moved as they are, and opened by the same key`() async throws {
    let sealer = SecretSealer(current: SecretBytes([UInt8](repeating: 7, count: 32)))
    try await withPostgres(migrated: false) { target, _, url in
      try await withTemporaryFolder { folder in
        let source = try SQLiteStorage(path: folder + "/relay.sqlite", sealer: sealer, clock: clock.wall)
        try await source.migrate { _ in }
        try await Store(storage: source, clock: clock).registerAccounts(3)
        let move = StoreMove(source, named: "here", to: target)
        try await move.begin()
        _ = try await move.copy { _ in }
        _ = try await move.end(at: Sample.noon) { _ in }
        #expect(try await target.contactSealing() == .locked)
        let opened = try await PostgresStorage.connected(to: url, sealer: sealer)
        #expect(try await opened.contactSealing() == .sealed)
        let account = try #require(try await opened.account(Sample.number(2)))
        let former = try await source.account(Sample.number(2))
        #expect(account.devices.map(\.signalingKey) == former?.devices.map(\.signalingKey))
        await opened.close()
        await source.close()
      }
    }
  }

  @Test func `only rows that both of two pages reach are judged`() {
    func row(_ key: Int64, _ value: Int64 = 0) -> MovedRow {
      MovedRow(key: [.integer(key)], values: [.integer(key), .integer(value)])
    }
    let both = MoveStep(source: [row(1), row(5), row(9)], target: [row(2), row(3), row(5, 1)], pageRows: 3)
    #expect(both.end == [.integer(5)] && both.added == [row(1), row(5)] && both.changed == 4)
    #expect(Set(both.removed) == [[.integer(2)], [.integer(3)], [.integer(5)]])
    let last = MoveStep(source: [row(1)], target: [row(1), row(7)], pageRows: 3)
    #expect(last.end == nil && last.added.isEmpty && last.removed == [[.integer(7)]])
    #expect(MoveStep(source: [], target: [], pageRows: 3).end == nil)
  }
}
