import Foundation
import RelayCore
import TestSupport
import Testing

@testable import Storage

/// What SQLite promises beyond the contracts.
@Suite struct EmbeddedTests {
  private let clock = ManualClock(Sample.noon)

  private func withStorage(_ body: (EmbeddedStorage, String) async throws -> Void) async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/data/relay.sqlite"
      let storage = try EmbeddedStorage(path: path, clock: clock.wall)
      try await storage.migrate { _ in }
      try await body(storage, path)
      await storage.close()
    }
  }

  private func permissions(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  @Test("Only the owner can read the database, its log and its folder")
  func permissions() async throws {
    try await withStorage { storage, path in
      try await storage.append([Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: 1)])
      #expect(try permissions(path) == 0o600)
      #expect(try permissions(path + "-wal") == 0o600)
      #expect(try permissions(URL(fileURLWithPath: path).deletingLastPathComponent().path) == 0o700)
    }
  }

  @Test("Commits are synchronous, over a write-ahead log")
  func synchronous() async throws {
    try await withStorage { storage, _ in
      func setting(_ name: String) async throws -> Int64? {
        try await storage.write { db in try db.row("PRAGMA \(name)")?.integer(0) }
      }
      let full: Int64 = 2
      #expect(try await setting("synchronous") == full)
      #expect(try await setting("foreign_keys") == 1)
      let journal = try await storage.write { db in try db.row("PRAGMA journal_mode")?.text(0) }
      #expect(journal == "wal")
    }
  }

  @Test("What one process commits another sees, its revisions included")
  func otherProcesses() async throws {
    try await withStorage { serving, path in
      let visiting = try EmbeddedStorage(path: path, clock: clock.wall)
      let before = try await serving.peersRevision()
      #expect(try await visiting.savePeer(Sample.peer("beta")))
      #expect(try await serving.peersRevision() > before)
      #expect(try await serving.peers().count == 1)

      let mailbox = try Sample.address(1)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for id in 0..<200 {
          let storage = id.isMultiple(of: 2) ? serving : visiting
          group.addTask { try await storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: id)]) }
        }
        try await group.waitForAll()
      }
      #expect(try await serving.pending(in: mailbox, after: 0, limit: 1000).count == 200)
      await visiting.close()
    }
  }

  @Test("Many processes can create one database at once")
  func createdAtOnce() async throws {
    try await withTemporaryFolder { folder in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask {
            let storage = try EmbeddedStorage(path: folder + "/relay.sqlite", clock: clock.wall)
            try await storage.migrate { _ in }
            #expect(try await storage.compatibility() == .usable(version: 1))
            await storage.close()
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test("A full disk stores nothing and says that it may pass")
  func fullDisk() async throws {
    try await withStorage { storage, _ in
      let mailbox = try Sample.address(1)
      let source = try Sample.address(2)
      try await storage.write { db in
        let pages = try #require(try db.row("PRAGMA page_count")).integer(0)
        try db.run("PRAGMA max_page_count = \(pages + 4)")
      }
      let many = (0..<2000).map { Sample.envelope(to: mailbox, from: source, id: $0) }
      let error = await #expect(throws: StoreError.self) { try await storage.append(many) }
      guard case .unavailable(let reason) = error else {
        Issue.record("not unavailable: \(String(describing: error))")
        return
      }
      #expect(reason == "SQLite 13 (database or disk is full)")
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 1).isEmpty)
      try await storage.append([many[0]])
    }
  }

  @Test("A file that is no database is refused with SQLite's words alone")
  func damaged() async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      try Data(repeating: 0x41, count: 8192).write(to: URL(fileURLWithPath: path))
      let error = #expect(throws: StoreError.self) { _ = try EmbeddedStorage(path: path, clock: clock.wall) }
      guard case .corrupted(let reason) = error else {
        Issue.record("not corrupted: \(String(describing: error))")
        return
      }
      #expect(reason.contains("SQLite 26"))
      #expect(!reason.contains(folder))
    }
  }

  @Test("A schema that a newer relay broke with is refused, one that it only extended is not")
  func newerSchema() async throws {
    try await withStorage { storage, _ in
      let insert = "INSERT INTO relay_migrations (version, name, applied, usable_from) VALUES"
      try await storage.write { db in try db.run("\(insert) (2, 'adds', 1, 1)") }
      #expect(try await storage.compatibility() == .usable(version: 2))
      #expect(try await storage.migrations().map(\.version) == [1, 2])
      try await storage.write { db in try db.run("\(insert) (3, 'takes away', 1, 3)") }
      #expect(try await storage.compatibility() == .tooNew(version: 3, newestKnown: 1))
    }
  }

  @Test("A mailbox remembers what was acknowledged today and yesterday, and no longer")
  func memory() async throws {
    try await withStorage { storage, _ in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let envelope = Sample.envelope(to: mailbox, from: source, id: 1)
      try await storage.append([envelope])
      _ = try await storage.acknowledge(source: source.account, timestamp: envelope.timestamp, in: mailbox)
      func remembered() async throws -> Int64? {
        try await storage.read { db in try db.row("SELECT count(*) FROM acknowledged")?.integer(0) }
      }
      for expected: Int64 in [1, 1, 0] {
        _ = try await storage.maintain(retention: .seconds(30 * 86_400))
        #expect(try await remembered() == expected)
        clock.advance(.seconds(86_400))
      }
    }
  }

  @Test("A second process that would serve the same database is refused until the first is gone")
  func lock() async throws {
    let path = NSTemporaryDirectory() + "relay-lock-" + UUID().uuidString
    defer { unlink(path + ".lock") }
    var first: EmbeddedLock? = try EmbeddedLock(databasePath: path)
    #expect(throws: EmbeddedLock.Failure.held(path: path + ".lock", process: getpid())) {
      _ = try EmbeddedLock(databasePath: path)
    }
    withExtendedLifetime(first) {}
    first = nil
    // A child that another test is just starting may hold the file until it becomes its program.
    try await eventually("the lock is free") { (try? EmbeddedLock(databasePath: path)) != nil }
    #expect(throws: EmbeddedLock.Failure.self) { _ = try EmbeddedLock(databasePath: "/nonexistent/relay.sqlite") }
  }
}
