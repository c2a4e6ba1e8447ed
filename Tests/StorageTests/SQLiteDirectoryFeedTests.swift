import GRDB
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct SQLiteDirectoryFeedTests {
  @Test func `a forgotten change is told to readers that need it, and to no others`() async throws {
    try await withTemporaryFolder { folder in
      let storage = try SQLiteStorage(path: folder + "/relay.sqlite", clock: ManualClock(Sample.noon).wall)
      try await storage.migrate { _ in }
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let start = try await storage.directoryPlace()
      try await store.registerAccounts(4)
      let end = try await storage.directoryPlace()
      func age(_ last: Int) async throws {
        try await storage.write { db in
          try db.run("UPDATE directory_changes SET at = at - 864000000 WHERE id <= \(last)")
        }
      }
      func known(_ place: DirectoryPlace) async throws -> Int? {
        try await storage.directoryChanges(after: place, limit: 10)?.changes.count
      }
      try await age(3)
      try await storage.pruneDirectoryChanges(olderThan: 11)
      #expect(try await known(start) == 4)
      try await storage.pruneDirectoryChanges(olderThan: 9)
      #expect(try await known(start) == nil)
      #expect(try await known(end) == 0)
      let recent = try await storage.recentDirectoryChanges(limit: 10)
      #expect(recent.changes.count == 1)
      #expect(try await known(recent.since) == 1)
      // More than one step of it takes; who has seen all has missed nothing.
      try await age(4)
      try await storage.write { db in
        try db.run(
          """
          WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
          INSERT INTO directory_changes (at, peer) SELECT 1, 'beta' FROM n
          """)
      }
      let last = try await storage.directoryPlace()
      try await storage.pruneDirectoryChanges(olderThan: 9)
      #expect(try await known(end) == nil)
      #expect(try await known(last) == 0)
      #expect(try await storage.directoryPlace() == last)
      try await store.register(Sample.registration(9))
      #expect(try await known(last) == 1)
      await storage.close()
    }
  }

  @Test func `another process's changes are in the feed`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      let serving = try SQLiteStorage(path: path, clock: ManualClock(Sample.noon).wall)
      try await serving.migrate { _ in }
      var reader = try await DirectoryReader(of: serving)
      let visiting = try SQLiteStorage(path: path, clock: ManualClock(Sample.noon).wall)
      #expect(try await visiting.savePeer(Sample.peer("beta")))
      let listed = ListedAccount(token: try Sample.token(1), isInactive: false, supportsSMS: true, voice: true)
      try await visiting.mergeContacts([listed], of: Sample.relay("beta"), pass: 1)
      #expect(try await reader.follow() == 1)
      #expect(try await reader.isCurrent())
      await visiting.close()
      await serving.close()
    }
  }
}
