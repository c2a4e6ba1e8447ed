// Tests of PostgreSQL's own traits. The contract suite tests the promises of the contracts.

import Logging
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresStorageTests {
  @Test func `processes that migrate at once run each step once`() async throws {
    try await withPostgres(migrated: false) { first, _, url in
      let reports = Counter()
      try await withThrowingTaskGroup { group in
        for _ in 0..<6 {
          group.addTask {
            let storage = try await PostgresStorage.connected(to: url)
            try await storage.migrate { _ in reports.add() }
            await storage.close()
          }
        }
        try await group.waitForAll()
      }
      #expect(reports.value == SchemaStep.postgres.count)
      #expect(try await first.compatibility() == .usable(version: SchemaStep.postgres.newest))
    }
  }

  @Test func `a day without partition is made by the first append`() async throws {
    try await withPostgres { storage, server, url in
      let partitions = try server.sql("SELECT inhrelid::regclass FROM pg_inherits ORDER BY 1", in: url)
      #expect(partitions.split(separator: "\n").filter { $0.hasPrefix("messages_2") }.count >= 2)
      for partition in partitions.split(separator: "\n") where partition.contains("_2") && !partition.hasSuffix("key") {
        try server.sql("DROP TABLE IF EXISTS \(partition)", in: url)
      }
      let mailbox = try Sample.address(1)
      try await storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: 1)])
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 10).count == 1)
    }
  }

  @Test func `maintenance drops whole days past the retention`() async throws {
    try await withPostgres { storage, server, url in
      #expect(try await storage.maintain(RetentionTerms()) == 0)
      for daysAgo in [1, 29, 30, 31, 40] { try server.addDay(daysAgo, to: "messages", in: url) }
      for daysAgo in [1, 2] { try server.addDay(daysAgo, to: "acknowledged", in: url) }
      #expect(try await storage.maintain(RetentionTerms()) == 2)
      #expect(try server.days(of: "messages", in: url) == [-30, -29, -1, 0, 1])
      #expect(try server.days(of: "acknowledged", in: url) == [-1, 0, 1])
      #expect(try await storage.maintain(RetentionTerms()) == 0)
    }
  }

  /// A drop that waits for the reader holds up everybody behind it. Two seconds were a try's wait once. The server
  /// notes each wait of half a second, by its own clock.
  @Test func `a reader of messages delays maintenance and nothing else`() async throws {
    try await withPostgres { storage, server, url in
      try server.addDay(40, to: "messages", in: url)
      let database = try #require(url.split(separator: "/").last)
      try server.sql("ALTER DATABASE \(database) SET log_lock_waits = on", in: url)
      try server.sql("ALTER DATABASE \(database) SET deadlock_timeout = '500ms'", in: url)
      let logged = try server.log().utf8.count
      try await withSession(url) { reader in
        _ = try await reader.run("BEGIN")
        _ = try await reader.run("SELECT count(*) FROM messages")
        let refused = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        let before = try #require(Int(try server.sql(refused, in: url)))
        let maintenance = Task { try await storage.maintain(RetentionTerms()) }
        var count = 0
        let mailbox = try Sample.address(1)
        try await eventually("the drop was tried twice") {
          count += 1
          try await storage.append([Sample.envelope(to: mailbox, from: Sample.address(2), id: count)])
          return try count.isMultiple(of: 20) && Int(server.sql(refused, in: url)) ?? 0 >= before + 2
        }
        let log = String(decoding: try server.log().utf8.dropFirst(logged), as: UTF8.self)
        #expect(log.contains("canceling statement due to lock timeout"))
        #expect(!log.contains("still waiting for AccessExclusiveLock"))
        #expect(try server.days(of: "messages", in: url).contains(-40))
        _ = try await reader.run("COMMIT")
        #expect(try await maintenance.value == 1)
      }
      #expect(try !server.days(of: "messages", in: url).contains(-40))
    }
  }

  @Test func `a retry is known across midnight`() async throws {
    try await withPostgres { storage, server, url in
      let mailbox = try Sample.address(1)
      let queued = try Sample.envelope(to: mailbox, from: Sample.address(2), id: 1)
      let acknowledged = try Sample.envelope(to: mailbox, from: Sample.address(2), id: 2)
      try await storage.append([queued, acknowledged])
      let removed = try await storage.acknowledge(
        source: acknowledged.source.account, timestamp: acknowledged.timestamp, in: mailbox)
      #expect(removed?.envelope == acknowledged)
      // A day passes.
      for table in ["messages", "acknowledged"] {
        try server.addDay(1, to: table, in: url)
        try server.sql("UPDATE \(table) SET day = day - 1", in: url)
      }
      try await storage.append([queued, acknowledged])
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 10).map(\.envelope) == [queued])
    }
  }

  @Test func `signaling keys are stored sealed`() async throws {
    let key = SecretBytes([UInt8](repeating: 7, count: 32))
    try await withPostgres(sealer: SecretSealer(current: key)) { sealing, server, url in
      let store = Store(storage: sealing, clock: ManualClock(Sample.noon))
      let registration = try Sample.registration(1)
      try await store.register(registration)
      let linked = try await store.linkActive(1)
      var change = DeviceChange()
      change.signalingKey = .set(Secret("changed"))
      #expect(try await sealing.updateDevice(linked, change))
      let keys = try await sealing.account(registration.number)?.devices.map(\.signalingKey)
      #expect(keys == [registration.device.signalingKey, Secret("changed")])
      let plain = registration.device.signalingKey.value
      let readable = "position('\(plain)'::bytea IN signaling_key) + position('changed'::bytea IN signaling_key) > 0"
      #expect(try server.sql("SELECT count(*) FROM devices WHERE \(readable)", in: url) == "0")

      // Another key does not open them; a former one does.
      let other = SecretBytes([UInt8](repeating: 8, count: 32))
      let strange = try await PostgresStorage.connected(to: url, sealer: SecretSealer(current: other))
      let error = await #expect(throws: StoreError.self) { try await strange.account(registration.number) }
      guard case .corrupted = error else { throw TestFailure("\(String(describing: error))") }
      await strange.close()
      let changed = SecretSealer(current: other, former: key)
      let successor = try await PostgresStorage.connected(to: url, sealer: changed)
      #expect(try await successor.account(registration.number)?.devices.map(\.signalingKey) == keys)
      await successor.close()
    }
  }

  @Test func `codes that expired long ago are forgotten`() async throws {
    try await withPostgres { storage, server, url in
      let (number, other) = try (Sample.number(1), Sample.number(2))
      let code = { VerificationCode(code: Secret("123456"), expires: $0) }
      for purpose in [CodePurpose.registration, .linking] {
        try await storage.setVerificationCode(code(Timestamp(millis: 0)), for: number, purpose: purpose)
        try await storage.setVerificationCode(code(Timestamp(millis: .max)), for: other, purpose: purpose)
      }
      _ = try await storage.maintain(RetentionTerms())
      for table in ["verification_codes", "linking_codes"] {
        #expect(try server.sql("SELECT account FROM \(table)", in: url) == "\(other.digits)")
      }
    }
  }

  @Test func `a server that returns is used again without a restart`() async throws {
    let server = try await Loopback.blocking { try PostgresServer() }
    let url = try server.createDatabase()
    let storage = try await PostgresStorage.connected(to: url)
    try await storage.migrate { _ in }
    let mailbox = try Sample.address(1)
    let source = try Sample.address(2)
    try await storage.append([Sample.envelope(to: mailbox, from: source, id: 1)])

    try await Loopback.blocking { try server.stop() }
    await #expect(throws: StoreError.self) {
      try await storage.append([Sample.envelope(to: mailbox, from: source, id: 2)])
    }
    await #expect(throws: StoreError.self) { try await storage.ping() }
    let asked = ContinuousClock.now
    await #expect(throws: StoreError.self) { _ = try await storage.pending(in: mailbox, after: 0, limit: 1) }
    #expect(ContinuousClock.now - asked < MachineSpeed.allow(.seconds(30)))

    try await Loopback.blocking { try server.start() }
    try await eventually("the store answers again") { (try? await storage.ping()) != nil }
    try await storage.append([Sample.envelope(to: mailbox, from: source, id: 3)])
    let bodies = try await storage.pending(in: mailbox, after: 0, limit: 10).map(\.envelope.message)
    #expect(bodies == [Array("message 1".utf8), Array("message 3".utf8)])
    await storage.close()
  }

  @Test func `an accepted message survives a crash of the server`() async throws {
    let server = try await Loopback.blocking { try PostgresServer() }
    let storage = try await PostgresStorage.connected(to: server.createDatabase())
    try await storage.migrate { _ in }
    let mailbox = try Sample.address(1)
    let source = try Sample.address(2)
    let accepted = Collected<Int>()
    async let senders: Void = withTaskGroup { group in
      for sender in 0..<8 {
        group.addTask {
          for id in 0..<400 {
            let envelope = Sample.envelope(to: mailbox, from: source, id: sender * 1000 + id)
            // Refused: the sender is told so, and nothing is promised.
            guard (try? await storage.append([envelope])) != nil else { return }
            accepted.add(sender * 1000 + id)
          }
        }
      }
    }
    try await eventually("some are accepted") { accepted.values.count > 200 }
    try await Loopback.blocking { try server.kill9() }
    await senders
    try await Loopback.blocking { try server.start() }
    try await eventually("the store answers again") { (try? await storage.ping()) != nil }
    let stored = try await Store(storage: storage, clock: ManualClock(Sample.noon)).mailbox(mailbox)
    let ids = Set(stored.map { $0.envelope.timestamp.millis - Sample.noon.millis })
    #expect(ids.count == stored.count)
    #expect(ids.isSuperset(of: accepted.values.map(Int64.init)))
    await storage.close()
  }

  @Test func `a bad URL is refused without repeating it`() throws {
    for url in ["mysql://a:secret@b/c", "postgres://a:secret@b/c?sslmode", "secret"] {
      let error = #expect(throws: StoreError.self) { try PostgresStorage(url: url, logger: .quiet) }
      #expect(error.map { !"\($0)".contains("secret") } == true)
    }
  }

  @Test func `a host that is down is passed over`() async throws {
    await Turns.postgres.take()
    defer { Turns.postgres.giveBack() }
    let server = try await Loopback.blocking { try PostgresServer.shared() }
    let database = try server.createDatabase().split(separator: "/").last ?? ""
    let closed = try Loopback.freePorts(1)[0]
    let url = "postgresql://relay@127.0.0.1:\(closed),127.0.0.1:\(server.port)/\(database)"
    let storage = try PostgresStorage(url: url, logger: .quiet)
    try await eventually("the other host serves") { (try? await storage.ping()) != nil }
    await storage.close()
    await #expect(throws: StoreError.self) { try await storage.ping() }
  }
}
