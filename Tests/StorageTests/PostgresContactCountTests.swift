// The count of a peer's contacts where several processes write, where one dies, and where something went past it.

import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresContactCountTests {
  private static func listed(_ indices: Range<Int>, isInactive: Bool = false) throws -> [ListedAccount] {
    try indices.map {
      ListedAccount(token: try Sample.token($0), isInactive: isInactive, supportsSMS: true, voice: false)
    }
  }

  private static func truth(_ server: PostgresServer, _ url: String) throws -> Int {
    try #require(Int(server.sql("SELECT count(*) FROM peer_contacts WHERE peer = 'beta'", in: url)))
  }

  /// Both think that it is their turn, as for a moment when a lease changes hands; and the operator sets the peer.
  @Test func `two processes that write at once count right`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      #expect(try await storage.savePeer(peer))
      let other = try await PostgresStorage.connected(to: url)
      @Sendable func write(_ storage: PostgresStorage, seed: UInt64) async {
        var generator = SeededGenerator(seed: seed)
        for step in 0..<40 {
          let first = Int.random(in: 0..<80, using: &generator)
          // Refused where one waits for too long: then it is not stored, and not counted.
          do throws(StoreError) {
            switch step % 4 {
            case 0: try await storage.mergeContacts(Self.sample(first, false), of: peer.name, pass: Int64(step))
            case 1: try await storage.applyContactChanges(Self.sample(first, true), of: peer.name, mark: "m")
            case 2: try await storage.applyContactChanges(Self.sample(first, false), of: peer.name, mark: "m")
            default: try await storage.finishContacts(of: peer.name, pass: Int64(step), mark: "m")
            }
          } catch {}
        }
      }
      async let one: Void = write(storage, seed: 1)
      async let two: Void = write(other, seed: 2)
      _ = await (one, two)
      let (count, truth) = (try await storage.contactCounts(of: peer.name).claims, try Self.truth(server, url))
      await other.close()
      #expect(count == truth)
    }
  }

  private static func sample(_ first: Int, _ isInactive: Bool) -> [ListedAccount] {
    // Tokens of these are always valid.
    (try? listed(first..<first + 40, isInactive: isInactive)) ?? []
  }

  /// Rows that a killed process had not committed are neither kept nor counted; rows that a former build writes are.
  @Test func `a transaction counts when it commits`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      #expect(try await storage.savePeer(peer))
      let insertion = """
        INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
        SELECT 'beta', decode(lpad(to_hex(n), 20, '0'), 'hex'), true, false, 1 FROM generate_series(1, 30) AS n
        ON CONFLICT (peer, token) DO UPDATE SET pass = excluded.pass
        """
      try server.sql("BEGIN; \(insertion); ROLLBACK", in: url)
      #expect(try await storage.contactCount(of: peer.name) == 0)
      for _ in 0..<2 {
        try server.sql(insertion, in: url)
        #expect(try await storage.contactCount(of: peer.name) == 30)
      }
      try server.sql("DELETE FROM peer_contacts WHERE token < '\\x0000000000000000000b'", in: url)
      #expect(try await storage.contactCount(of: peer.name) == 20)
      #expect(try Self.truth(server, url) == 20)
    }
  }

  @Test func `contacts that were written past the triggers are found by counting`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      #expect(try await storage.savePeer(peer))
      try await storage.mergeContacts(Self.listed(0..<20), of: peer.name, pass: 1)
      for wrong in [0, 1000, -5] {
        try server.sql("UPDATE contact_counts SET contacts = \(wrong)", in: url)
        try await storage.recountContacts(of: peer.name)
        #expect(try await storage.contactCount(of: peer.name) == 20)
      }
    }
  }

  /// However many rows there are: what a round asks for looks at none of them.
  @Test func `asking for the count reads no contact`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      #expect(try await storage.savePeer(peer))
      try await storage.mergeContacts(Self.listed(0..<20), of: peer.name, pass: 1)
      let plan = try server.sql(
        "EXPLAIN SELECT contacts, revision FROM contact_counts WHERE peer = 'beta'", in: url)
      #expect(plan.contains("contact_counts") && !plan.contains("peer_contacts"))
      try await withSession(url) { session in
        try await session.run("BEGIN")
        // A reader of the contacts waits behind this, and is refused.
        try await session.run("DO $$ BEGIN LOCK TABLE peer_contacts IN ACCESS EXCLUSIVE MODE; END $$")
        #expect(try await storage.contactCount(of: peer.name) == 20)
        try await session.run("COMMIT")
      }
    }
  }
}
