// The feed under transactions that overlap, on servers that were set back, and beside what waits.

import Logging
import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresDirectoryFeedTests {
  /// Not an account: of those one waits for the other, for the listing's sake.
  private static func insert(_ index: Int) throws -> String {
    """
    INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
    VALUES ('beta', '\\x\(try Sample.token(index).bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())',
      true, false, 1)
    """
  }

  @Test func `a change that began first and is committed last is not missed`() async throws {
    try await withPostgres { storage, _, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      #expect(try await storage.savePeer(Sample.peer("beta")))
      var reader = try await DirectoryReader(of: storage)
      try await withSession(url) { session in
        try await session.run("BEGIN")
        try await session.run(Self.insert(100))
        // Changes that begin later are seen at once, page by page, again and again.
        for index in 0..<12 {
          try await store.register(Sample.registration(index))
          #expect(try await reader.follow(limit: 3) == 1)
          #expect(reader.entries.count == index + 1)
        }
        let page = try #require(try await storage.directoryChanges(after: reader.place, limit: 100))
        #expect(page.changes.count == 12 && page.fence.isBehind(page.next))
        try await session.run("COMMIT")
        #expect(try await reader.follow(limit: 3) == 1)
        #expect(reader.entries.count == 13)
        #expect(try await reader.isCurrent())
      }
    }
  }

  @Test func `while a transaction of another database lasts, a reader is told again what it has read`() async throws {
    try await withPostgres { storage, server, _ in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let other = try await Loopback.blocking { try server.createDatabase() }
      try await withSession(other) { session in
        try await session.run("BEGIN")
        try await session.run("SELECT pg_current_xact_id()")
        try await store.registerAccounts(4)
        let place = try await storage.readDirectory { _ in }
        #expect(try await storage.directoryChanges(after: place, limit: 10)?.changes.count == 4)
        var reader = try await DirectoryReader(of: storage)
        try await store.register(Sample.registration(5))
        #expect(try await reader.follow() == 1)
        #expect(try await reader.isCurrent())
      }
    }
  }

  @Test func `a commit between two pages of one reading is not missed`() async throws {
    try await withPostgres { storage, _, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      #expect(try await storage.savePeer(Sample.peer("beta")))
      let start = try await storage.directoryPlace()
      try await withSession(url) { session in
        try await session.run("BEGIN")
        try await session.run(Self.insert(100))
        try await store.registerAccounts(6)
        let first = try #require(try await storage.directoryChanges(after: start, limit: 4))
        #expect(first.isPartial && first.fence.isBehind(first.next))
        try await session.run("COMMIT")
        let second = try #require(try await storage.directoryChanges(after: first.next, limit: 4))
        #expect(second.changes.count == 2)
        // The next reading begins at the first page's fence.
        let next = try #require(try await storage.directoryChanges(after: first.fence, limit: 100))
        let missed = try DirectoryChange.Subject.token(Sample.token(100))
        #expect(next.changes.contains { $0.subject == missed })
      }
    }
  }

  @Test func `a rolled-back write is no change`() async throws {
    try await withPostgres { storage, _, url in
      #expect(try await storage.savePeer(Sample.peer("beta")))
      var reader = try await DirectoryReader(of: storage)
      try await withSession(url) { session in
        try await session.run("BEGIN")
        try await session.run(Self.insert(100))
        #expect(try await reader.follow() == 0)
        try await session.run("ROLLBACK")
        #expect(try await reader.follow() == 0)
        try await session.run(Self.insert(101))
        #expect(try await reader.follow() == 1)
        #expect(try await reader.isCurrent())
      }
    }
  }

  /// Registrations, removals, passes and suspensions side by side, whose transactions last and overlap.
  @Test func `a reader that follows while several processes write knows the store's content`() async throws {
    try await withPostgres { first, server, url in
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      for table in ["accounts", "peer_contacts", "peers"] {
        try server.sql(
          """
          CREATE FUNCTION linger_\(table)() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(random() * 0.004); RETURN NULL; END $$;
          CREATE TRIGGER a_linger AFTER INSERT OR UPDATE OR DELETE ON \(table)
          FOR EACH STATEMENT EXECUTE FUNCTION linger_\(table)();
          CREATE TRIGGER z_linger AFTER INSERT OR UPDATE OR DELETE ON \(table)
          FOR EACH STATEMENT EXECUTE FUNCTION linger_\(table)();
          """, in: url)
      }
      for name in ["beta", "gamma"] { #expect(try await first.savePeer(Sample.peer(name))) }
      var reader = try await DirectoryReader(of: first)
      let done = Counter()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (place, storage) in processes.enumerated() {
          group.addTask { try await Self.write(as: place, to: storage, done: done) }
        }
        while done.value < processes.count { _ = try await reader.follow(limit: 5) }
        try await group.waitForAll()
      }
      _ = try await reader.follow()
      #expect(try await reader.isCurrent())
      let beginner = try await DirectoryReader(of: first)
      #expect(beginner.entries == reader.entries)
      for range in DirectoryRange.all {
        #expect(try await first.directoryDigest(of: range) == reader.digest(of: range))
      }
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  private static func write(as place: Int, to storage: PostgresStorage, done: Counter) async throws {
    defer { done.add() }
    let store = Store(storage: storage, clock: ManualClock(Sample.noon))
    let (beta, gamma) = try (Sample.relay("beta"), Sample.relay("gamma"))
    for round in 0..<15 {
      try await store.register(Sample.registration(place * 100 + round % 7, voice: round.isMultiple(of: 2)))
      var change = DeviceChange()
      change.isDiscoverable = .set(!round.isMultiple(of: 3))
      _ = try await storage.updateDevice(Sample.address(place * 100 + round % 5), change)
      let page = try (0..<20).map { index in
        ListedAccount(
          token: try Sample.token(Sample.number((place + index) % 4 * 100 + index)),
          isInactive: (round + index).isMultiple(of: 5), supportsSMS: true, voice: (round + index).isMultiple(of: 4))
      }
      let peer = place.isMultiple(of: 2) ? beta : gamma
      try await storage.mergeContacts(page, of: peer, pass: Int64(round))
      switch (place, round % 3) {
      case (0, 0): _ = try await storage.setPeerState(.suspended, of: beta)
      case (0, 1): _ = try await storage.setPeerState(.active, of: beta)
      case (1, 0): _ = try await storage.changePeerPolicy(PeerPolicyChange(contacts: .query), of: gamma)
      case (1, 1): _ = try await storage.changePeerPolicy(PeerPolicyChange(contacts: .copy), of: gamma)
      case (2, _): try await storage.finishContacts(of: beta, pass: Int64(round), mark: "m")
      default: break
      }
    }
  }

  private static let count = "SELECT count(*) FROM directory_changes"

  private static func prune(_ storage: PostgresStorage, to rows: Int, count: @Sendable () throws -> String) async throws
  {
    try await eventually("all are forgotten") {
      try await storage.pruneDirectoryChanges(olderThan: 9)
      return try count() == "\(rows)"
    }
  }

  /// Once transactions of others are over.
  private static func expectFollowable(_ storage: PostgresStorage) async throws {
    try await eventually("who begins now is not too late") {
      let end = try await storage.directoryPlace()
      return try await storage.directoryChanges(after: end, limit: 10) != nil
    }
  }

  @Test func `a forgotten change is told to readers that need it`() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let start = try await storage.directoryPlace()
      try await store.registerAccounts(4)
      try server.sql("UPDATE directory_changes SET at = at - 10 * 86400000 WHERE id <= 3", in: url)
      try await storage.pruneDirectoryChanges(olderThan: 11)
      #expect(try await storage.directoryChanges(after: start, limit: 10)?.changes.count == 4)
      try await eventually("transactions of others are over") {
        try await storage.pruneDirectoryChanges(olderThan: 9)
        return try server.sql("SELECT count(*) FROM directory_changes", in: url) == "1"
      }
      #expect(try await storage.directoryChanges(after: start, limit: 10) == nil)
      let recent = try await storage.recentDirectoryChanges(limit: 10)
      #expect(recent.changes.count == 1)
      #expect(try await storage.directoryChanges(after: recent.since, limit: 10)?.changes == recent.changes)
      // More than one step of it takes.
      try server.sql(
        "INSERT INTO directory_changes (at, peer) SELECT 1, 'beta' FROM generate_series(1, 25000)", in: url)
      try await Self.prune(storage, to: 1) { try server.sql(Self.count, in: url) }
      try await Self.expectFollowable(storage)
    }
  }

  /// The mark of a server whose transactions had higher numbers keeps nobody from following this one.
  @Test func `changes that a restored dump had forgotten are not forgotten here`() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let start = try await storage.directoryPlace()
      try await store.registerAccounts(3)
      try server.sql("UPDATE revisions SET value = 1099511627776 WHERE subject = 'directory-pruned'", in: url)
      #expect(try await storage.directoryChanges(after: start, limit: 10)?.changes.count == 3)
      let recent = try await storage.recentDirectoryChanges(limit: 10)
      #expect(recent.since.revision == 1 && recent.changes.count == 3)
      try server.sql("UPDATE directory_changes SET at = 1", in: url)
      try await Self.prune(storage, to: 0) { try server.sql(Self.count, in: url) }
      // From then on the mark is this server's.
      #expect(try await storage.directoryChanges(after: start, limit: 10) == nil)
      try await Self.expectFollowable(storage)
    }
  }

  /// Numbers of transactions that this server has yet to give out.
  @Test func `changes that a restored dump brought along are no changes`() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let start = try await storage.directoryPlace()
      try server.sql(
        "INSERT INTO directory_changes (changed, at, peer) VALUES ('9000000000', 1, 'beta'), ('9000000001', 1, 'beta')",
        in: url)
      try await store.registerAccounts(2)
      let page = try #require(try await storage.directoryChanges(after: start, limit: 10))
      #expect(page.changes.count == 2)
      #expect(try await storage.recentDirectoryChanges(limit: 10).changes == page.changes)
      // A reader that followed the former server begins anew.
      let former = DirectoryPlace(generation: start.generation, revision: 8_999_999_999)
      #expect(try await storage.directoryChanges(after: former, limit: 10) == nil)
      try await storage.pruneDirectoryChanges(olderThan: 1)
      #expect(try server.sql("SELECT count(*) FROM directory_changes", in: url) == "2")
      #expect(try await storage.directoryChanges(after: start, limit: 10)?.changes.count == 2)
    }
  }

  @Test func `the feed does not wait for a merge that waits`() async throws {
    try await withPostgres { storage, _, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      #expect(try await storage.savePeer(Sample.peer("beta")))
      var reader = try await DirectoryReader(of: storage)
      try await withSession(url) { session in
        try await session.run("BEGIN")
        try await session.run("SELECT 1 FROM peers FOR UPDATE")
        let listed = ListedAccount(token: try Sample.token(1), isInactive: false, supportsSMS: true, voice: true)
        let peer = try Sample.relay("beta")
        // Whether it is served or refused for having waited too long is not this test's matter.
        async let merge: Void? = try? storage.mergeContacts([listed], of: peer, pass: 1)
        try await store.register(Sample.registration(1))
        #expect(try await reader.follow() == 1)
        _ = try await storage.directoryDigest(of: DirectoryRange(firstByte: 0))
        try await session.run("COMMIT")
        _ = await merge
      }
    }
  }

  /// Also by plans that were made while the tables were empty.
  @Test func `the directory is read by indexes`() async throws {
    try await withPostgres { _, _, url in
      try await withSession(url) { session in
        for (name, rule) in [("listed", "token = ANY ($1)"), ("range", "token >= $1[1] AND token < $1[2]")] {
          try await session.run("PREPARE \(name) (bytea[]) AS SELECT token, peer FROM directory_entries WHERE \(rule)")
          let plan = try #require(try await session.run("EXPLAIN EXECUTE \(name) ('{a,b}')"))
          let lines = try plan.rows.map { index in
            var row = plan.cursor(row: index)
            return try row.text()
          }
          #expect(lines.contains { $0.contains("accounts_by_token") })
          #expect(lines.contains { $0.contains("peer_contacts_by_token") })
          // There are few peers, so their table may be scanned.
          #expect(!lines.contains { $0.contains("Seq Scan on accounts") || $0.contains("Seq Scan on peer_contacts") })
        }
      }
    }
  }
}
