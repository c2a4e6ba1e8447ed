import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Numbers of messages where another server goes on with a store.
@Suite(.tags(.stores)) struct PostgresNumberingTests {
  @Test func `many connections that meet another server let the numbers leap once`() async throws {
    try await withPostgres { storage, server, url in
      let first = try await Self.append(1, to: storage)
      #expect(first < Self.leap, "the server that made the store")
      try server.sql("UPDATE store_numbering SET timeline = timeline + 1", in: url)
      let others = try await PostgresStorage.connected(3, to: url)
      var last = first
      for (id, store) in others.enumerated() {
        let next = try await Self.append(id + 2, to: store)
        // The first leaps, the others follow it.
        #expect(id == 0 ? next - last > Self.leap : next > last && next - last < Self.leap)
        last = next
      }
      for store in others { await store.close() }
      let known = "SELECT count(*) FROM store_numbering JOIN (\(PostgresLineage.question)) AS s USING (timeline)"
      #expect(try server.sql(known, in: url) == "1")
    }
  }

  @Test func `a store that came from another cluster leaps, with the outbox`() async throws {
    try await withPostgres { storage, server, url in
      let first = try await Self.append(1, to: storage)
      let entry = try #require(Int64(try server.sql("SELECT nextval('outbox_sequence')", in: url)))
      try server.sql("UPDATE store_numbering SET system_identifier = 1", in: url)
      let moved = try await PostgresStorage.connected(to: url)
      #expect(try await Self.append(2, to: moved) > first + Self.leap)
      let next = try #require(Int64(try server.sql("SELECT nextval('outbox_sequence')", in: url)))
      #expect(next > entry + Self.leap)
      await moved.close()
    }
  }

  @Test func `a store that was put back under the same server leaps`() async throws {
    try await withPostgres { storage, _, _ in
      let first = try await Self.append(1, to: storage)
      try await storage.setAsideOneTimePreKeys(epoch: 5, by: .command, behind: .zero)
      #expect(try await Self.append(2, to: storage) > first + Self.leap)
    }
  }

  /// Relays come up with it, and number on: a role that may not ask which server it is.
  @Test func `a role that may not ask for the server works without leaps`() async throws {
    try await withPostgres { storage, server, url in
      let first = try await Self.append(1, to: storage)
      try server.sql("UPDATE store_numbering SET timeline = timeline + 1", in: url)
      let database = try #require(url.split(separator: "/").last.map(String.init))
      let role = "weak_\(database)"
      try server.sql("CREATE ROLE \(role) LOGIN", in: url)
      for function in ["pg_control_system()", "pg_walfile_name(pg_lsn)"] {
        try server.sql("REVOKE EXECUTE ON FUNCTION \(function) FROM PUBLIC", in: url)
      }
      try server.sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO \(role)", in: url)
      try server.sql("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO \(role)", in: url)
      let other = try await PostgresStorage.connected(to: url.replacing("//relay@", with: "//\(role)@"))
      let second = try await Self.append(2, to: other)
      #expect(second > first && second < Self.leap)
      try await other.setAsideOneTimePreKeys(epoch: 5, by: .command, behind: .zero)
      #expect(try await Self.append(3, to: other) < Self.leap)
      await other.close()
    }
  }

  private static let leap: Int64 = 1 << 32

  /// - Returns: the number of the message.
  private static func append(_ id: Int, to storage: PostgresStorage) async throws -> Int64 {
    let mailbox = try Sample.address(id)
    try await storage.append([Sample.envelope(to: mailbox, from: Sample.address(99), id: id)])
    return try #require(try await storage.pending(in: mailbox, after: 0, limit: 10).last?.sequence)
  }
}
