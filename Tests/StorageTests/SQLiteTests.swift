import Foundation
import GRDB
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// SQLite's promises beyond the contracts.
@Suite(.tags(.stores)) struct SQLiteTests {
  private let clock = ManualClock(Sample.noon)

  private func withStorage(_ body: (SQLiteStorage, String) async throws -> Void) async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/data/relay.sqlite"
      let storage = try SQLiteStorage(path: path, clock: clock.wall)
      try await storage.migrate { _ in }
      try await body(storage, path)
      await storage.close()
    }
  }

  private func permissions(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  @Test func `only the owner can read the database, its log and its folder`() async throws {
    try await withStorage { storage, path in
      try await storage.append([Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: 1)])
      #expect(try permissions(path) == 0o600)
      #expect(try permissions(path + "-wal") == 0o600)
      #expect(try permissions(URL(fileURLWithPath: path).deletingLastPathComponent().path) == 0o700)
    }
  }

  @Test func `commits are synchronous, over a write-ahead log`() async throws {
    try await withStorage { storage, _ in
      func setting(_ name: String) async throws -> Int64? {
        try await storage.write { db in try db.row("PRAGMA \(sql: name)")?.integer(0) }
      }
      let full: Int64 = 2
      #expect(try await setting("synchronous") == full)
      #expect(try await setting("foreign_keys") == 1)
      let journal = try await storage.write { db in try db.row("PRAGMA journal_mode")?.text(0) }
      #expect(journal == "wal")
    }
  }

  @Test func `one process's commits are seen by another, their revisions included`() async throws {
    try await withStorage { serving, path in
      let visiting = try SQLiteStorage(path: path, clock: clock.wall)
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

  @Test func `many processes can create one database at once`() async throws {
    try await withTemporaryFolder { folder in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask {
            let storage = try SQLiteStorage(path: folder + "/relay.sqlite", clock: clock.wall)
            try await storage.migrate { _ in }
            #expect(try await storage.compatibility() == .usable(version: SchemaStep.embedded.newest))
            await storage.close()
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test func `a full disk stores nothing and says that it may pass`() async throws {
    try await withStorage { storage, _ in
      let mailbox = try Sample.address(1)
      let source = try Sample.address(2)
      try await storage.write { db in
        let pages = try #require(try db.row("PRAGMA page_count")).integer(0)
        try db.execute(sql: "PRAGMA max_page_count = \(pages + 4)")
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

  @Test func `a file that is no database is refused with SQLite's words alone`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      try Data(repeating: 0x41, count: 8192).write(to: URL(fileURLWithPath: path))
      let error = #expect(throws: StoreError.self) { _ = try SQLiteStorage(path: path, clock: clock.wall) }
      guard case .corrupted(let reason) = error else {
        Issue.record("not corrupted: \(String(describing: error))")
        return
      }
      #expect(reason.contains("SQLite 26"))
      #expect(!reason.contains(folder))
    }
  }

  @Test
  func `signaling keys lie sealed in the file, and those of before the key was given are read too`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder + "/relay.sqlite"
      let key = SecretBytes(Array(repeating: 9, count: 32))
      let registration = try Sample.registration(1)
      func with(_ sealer: SecretSealer, _ body: (Store, SQLiteStorage) async throws -> Void) async throws {
        let storage = try SQLiteStorage(path: path, sealer: sealer, clock: clock.wall)
        try await storage.migrate { _ in }
        try await body(Store(storage: storage, clock: clock), storage)
        await storage.close()
      }
      func stored(_ storage: SQLiteStorage) async throws -> [[UInt8]] {
        try await storage.read { db in
          try db.rows("SELECT signaling_key FROM devices ORDER BY device").map { try $0.bytes(0) }
        }
      }
      let clear = Array(registration.device.signalingKey.value.utf8)
      try await with(.none) { store, storage in
        try await store.register(registration)
        #expect(try await stored(storage) == [clear])
      }
      try await with(SecretSealer(current: key)) { store, storage in
        let linked = try await store.linkActive(1)
        var change = DeviceChange()
        change.signalingKey = .set(Secret("changed"))
        #expect(try await storage.updateDevice(linked, change))
        let account = try #require(try await storage.account(registration.number))
        #expect(account.devices.map(\.signalingKey) == [registration.device.signalingKey, Secret("changed")])
        try await store.register(registration)
        #expect(try await stored(storage).allSatisfy { $0.first == 0xFF && !$0.contains(clear) })
        #expect(try await storage.account(registration.number)?.devices == [registration.device])
      }
      try await with(.none) { store, storage in
        let refusal = await #expect(throws: StoreError.self) { try await storage.account(registration.number) }
        #expect(refusal?.description.contains("storage.encryption-key") == true)
        // The user is not lost with the operator's key: registering again helps.
        let again = try await store.register(registration)
        #expect(again == .registered)
        let devices = try await storage.account(registration.number)?.devices
        #expect(devices == [registration.device])
      }
    }
  }

  @Test func `the queries of every submission read indexes alone, however full the mailbox is`() async throws {
    try await withStorage { storage, _ in
      let (mailbox, sender) = (try Sample.address(1), try Sample.number(2))
      let queries = [
        SQLiteStorage.usageQuery(mailbox, by: sender, countingTo: 1),
        SQLiteStorage.standingQuery(mailbox, sender, clock.now, since: 1),
        SQLiteStorage.chargedQuery(to: sender, except: try #require(AttachmentID(1))),
      ]
      let plans = try await storage.read { db in
        try queries.map { query in
          try db.rows("EXPLAIN QUERY PLAN \(query)").map { try $0.text(3) }.filter { $0.hasPrefix("SEARCH") }
        }
      }
      let source = "(account=? AND device=? AND source=?"
      #expect(plans[0].count == 2)
      #expect(plans[0].allSatisfy { $0.hasPrefix("SEARCH messages USING COVERING INDEX messages_by_") })
      #expect(plans[0].last?.hasSuffix("messages_by_source \(source))") == true)
      #expect(
        plans[1] == [
          "SEARCH messages USING INDEX messages_by_source \(source) AND sent=?)",
          "SEARCH acknowledged USING COVERING INDEX acknowledged_by_source \(source) AND sent=? AND day>?)",
        ])
      #expect(plans[2] == ["SEARCH attachments USING COVERING INDEX attachments_by_account (account=?)"])
    }
  }

  @Test func `codes that nobody used are forgotten when they have expired`() async throws {
    try await withStorage { storage, _ in
      let code = VerificationCode(code: Secret("123456"), expires: clock.now.adding(.seconds(60)))
      for purpose in [CodePurpose.registration, .linking] {
        try await storage.setVerificationCode(code, for: Sample.number(1), purpose: purpose)
      }
      func pending() async throws -> Int64? {
        try await storage.read { db in
          try db.row(
            "SELECT (SELECT count(*) FROM verification_codes) + (SELECT count(*) FROM linking_codes)")?.integer(0)
        }
      }
      for expected: Int64 in [2, 0] {
        _ = try await storage.maintain(RetentionTerms())
        #expect(try await pending() == expected)
        clock.advance(.seconds(61))
      }
    }
  }

  @Test func `a mailbox remembers messages acknowledged today and yesterday, and no older ones`() async throws {
    try await withStorage { storage, _ in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let envelope = Sample.envelope(to: mailbox, from: source, id: 1)
      try await storage.append([envelope])
      _ = try await storage.acknowledge(source: source.account, timestamp: envelope.timestamp, in: mailbox)
      func remembered() async throws -> Int64? {
        try await storage.read { db in try db.row("SELECT count(*) FROM acknowledged")?.integer(0) }
      }
      for expected: Int64 in [1, 1, 0] {
        _ = try await storage.maintain(RetentionTerms())
        #expect(try await remembered() == expected)
        clock.advance(.seconds(86_400))
      }
    }
  }

  @Test func `a second process that would serve the same database is refused until the first is gone`() async throws {
    let path = NSTemporaryDirectory() + "relay-lock-" + UUID().uuidString
    defer { unlink(path + ".lock") }
    var first: SQLiteLock? = try SQLiteLock(databasePath: path)
    #expect(throws: SQLiteLock.Failure.held(path: path + ".lock", process: getpid())) {
      _ = try SQLiteLock(databasePath: path)
    }
    withExtendedLifetime(first) {}
    first = nil
    // A child that another test is just starting may hold the file until it becomes its program.
    try await eventually("the lock is free") { (try? SQLiteLock(databasePath: path)) != nil }
    #expect(throws: SQLiteLock.Failure.self) { _ = try SQLiteLock(databasePath: "/nonexistent/relay.sqlite") }
  }
}
