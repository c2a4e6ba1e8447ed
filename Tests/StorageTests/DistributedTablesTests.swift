import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Citus distributes a table only if some things hold of it. A change of the schema shows here, without Citus.
@Suite(.tags(.stores)) struct DistributedTablesTests {
  @Test func `the schema's tables can be distributed by the account`() async throws {
    try await withPostgres { _, server, url in
      func rows(_ sql: String) async throws -> String {
        try await Loopback.blocking { try server.sql(sql, in: url) }
      }
      for table in DistributedTables.names {
        let column = try await rows(
          """
          SELECT format_type(atttypid, NULL), attnotnull FROM pg_attribute
          WHERE attrelid = '\(table)'::regclass AND attname = '\(DistributedTables.column)'
          """)
        #expect(column == "bigint|t", "\(table)")
        let keys = try await rows(
          """
          SELECT count(*) FROM pg_index AS i WHERE i.indrelid = '\(table)'::regclass AND i.indisunique AND (
            SELECT attnum FROM pg_attribute
            WHERE attrelid = i.indrelid AND attname = '\(DistributedTables.column)') <> ALL (i.indkey)
          """)
        #expect(keys == "0", "a unique index of \(table) does not name the account")
        let triggers = try await rows(
          "SELECT count(*) FROM pg_trigger WHERE tgrelid = '\(table)'::regclass AND NOT tgisinternal")
        #expect(triggers == "0", "\(table) has a trigger")
        let references = try await rows(
          """
          SELECT count(*) FROM pg_constraint
          WHERE contype = 'f' AND '\(table)'::regclass IN (conrelid, confrelid)
          """)
        #expect(references == "0", "\(table) has a foreign key, or is named by one")
      }
    }
  }

  @Test func `a distributed store whose server has not loaded Citus is not served`() async throws {
    try await withPostgres { _, server, url in
      // As Citus leaves it, seen without Citus: its tables there are empty.
      try await Loopback.blocking {
        _ = try server.sql(
          """
          CREATE FUNCTION citus_truncate_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
          CREATE TRIGGER truncated AFTER TRUNCATE ON messages EXECUTE FUNCTION citus_truncate_trigger();
          """, in: url)
      }
      let storage = try PostgresStorage(url: url, logger: .quiet)
      try await eventually("it is said why") {
        do throws(StoreError) {
          try await storage.ping()
          return false
        } catch {
          return "\(error)".contains("has not loaded Citus")
        }
      }
      await storage.close()
    }
  }

  @Test func `a mark of a distribution that has divided nothing is taken back`() async throws {
    try await withPostgres { storage, server, url in
      let before = try await storage.compatibility()
      let mark = SchemaMark.distributing
      try await Loopback.blocking {
        _ = try server.sql(
          """
          INSERT INTO relay_schema (version, name, applied, usable_from)
          VALUES (\(mark.rawValue), '\(mark.name)', 1, \(mark.rawValue))
          """, in: url)
      }
      #expect(try await storage.compatibility() == .distributing)
      await #expect(throws: DistributionFailure.self) { try await storage.distribute(shards: 2) { _ in } }
      #expect(try await storage.compatibility() == before)
    }
  }

  @Test func `a server without a cluster is told as one, with the sizes of its tables`() async throws {
    try await withPostgres { storage, server, url in
      let before = try await storage.placement()
      #expect(before.tables.map(\.name) == DistributedTables.names)
      #expect(!before.isBegun && !before.isWorker && before.nodes == [] && before.skew == nil)
      // Whether the machine has Citus, or not: this server has not loaded it.
      #expect(before.citus == .absent || before.citus == .notLoaded)
      #expect(before.tables.allSatisfy { $0.localBytes == 0 })
      try await Loopback.blocking {
        _ = try server.sql(
          "INSERT INTO one_time_prekeys (account, device, key_id, public_key) VALUES (1, 1, 1, '\\x01')", in: url)
      }
      let after = try await storage.placement()
      #expect(after.tables.filter { $0.localBytes > 0 }.map(\.name) == ["one_time_prekeys"])
    }
  }
}
