// Several processes over one database: what one of them does, the others must not do again.

import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct PostgresProcessesTests {
  @Test func `concurrent drawers on several processes never get one key twice`() async throws {
    try await withPostgres { first, _, url in
      let store = Store(storage: first, clock: ManualClock(Sample.noon))
      let number = try await store.registerAccounts(1)[0]
      let device = DeviceAddress(number, .master)
      #expect(try await first.replacePreKeys(of: device, with: Sample.upload(Array(0..<1000))) == .stored)
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      let drawn = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for caller in 0..<64 {
          let storage = processes[caller % processes.count]
          group.addTask {
            var keys: [Int64] = []
            while true {
              let drawn = try await storage.drawPreKeys(of: number, devices: [.master], oneTime: [.master], epoch: 0)
              guard let key = drawn.first?.preKey, key.publicKey != "last resort" else { break }
              keys.append(key.keyID)
            }
            return keys
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      // All were given, and none twice.
      #expect(drawn.sorted() == Array(0..<1000))
      #expect(try await first.preKeyCount(of: device) == 0)
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// None has satisfied the lock that the first of them sets, on a number that has no account to begin with.
  @Test func `of several first registrations at once, one process sets the lock`() async throws {
    try await withPostgres { first, server, url in
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      // Slow enough that all are on their way at once.
      try server.sql(
        """
        CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
        CREATE TRIGGER linger BEFORE INSERT ON accounts FOR EACH ROW EXECUTE FUNCTION linger();
        """, in: url)
      for index in 0..<5 {
        let outcomes = try await withThrowingTaskGroup(of: RegistrationOutcome.self) { group in
          for (caller, storage) in processes.enumerated() {
            let registration = try Sample.registration(index, newLock: Sample.lock(UInt8(caller)))
            group.addTask { try await storage.register(registration, proof: .trusted, now: Sample.noon) }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == .registered } == 1)
        #expect(outcomes.count { $0 == .locked } == 3)
      }
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  @Test func `quotas and linking ids hold across processes`() async throws {
    try await withPostgres { first, _, url in
      let store = Store(storage: first, clock: ManualClock(Sample.noon))
      try await store.registerAccounts(2)
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      let quota = AttachmentQuota(bytesMax: 10 * AttachmentQuota.chargeMin)
      let number = try Sample.number(1)
      let added = try await withThrowingTaskGroup(of: Bool.self) { group in
        for value in 1...64 as ClosedRange<Int64> {
          let storage = processes[Int(value) % processes.count]
          let attachment = RelayCore.Attachment(
            id: try Sample.found(AttachmentID(value)), account: number, bytes: nil, expires: Sample.noon)
          group.addTask { try await storage.addAttachment(attachment, quota: quota) }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(added == 10)

      try await store.expect(Store.code, for: number, purpose: .linking)
      let link = try Sample.link(1)
      let linked = try await withThrowingTaskGroup(of: LinkOutcome.self) { group in
        for caller in 0..<32 {
          let storage = processes[caller % processes.count]
          group.addTask { try await storage.linkDevice(link, code: Store.code, triesMax: 5, now: Sample.noon) }
        }
        return try await group.reduce(0) { $0 + ($1 == .codeRefused ? 0 : 1) }
      }
      #expect(linked == 1)
      #expect(try await first.account(number)?.devices.count == 2)
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// Each upload grows to half of the quota: beside what the others count at least there is room for one.
  @Test func `uploads on several processes do not overrun the quota`() async throws {
    try await withPostgres { first, server, url in
      let store = Store(storage: first, clock: ManualClock(Sample.noon))
      let numbers = try await store.registerAccounts(5)
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      let least = AttachmentQuota.chargeMin
      let quota = AttachmentQuota(bytesMax: 12 * least)
      try server.sql(
        """
        CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
        CREATE TRIGGER linger BEFORE UPDATE ON attachments FOR EACH ROW EXECUTE FUNCTION linger();
        """, in: url)
      for (index, number) in numbers.enumerated() {
        let ids = try (1...4 as ClosedRange<Int64>).map { try Sample.found(AttachmentID(Int64(index) * 10 + $0)) }
        for id in ids {
          let attachment = RelayCore.Attachment(id: id, account: number, bytes: nil, expires: Sample.noon)
          #expect(try await first.addAttachment(attachment, quota: quota))
        }
        let outcomes = try await withThrowingTaskGroup(of: AttachmentOutcome.self) { group in
          for (id, storage) in zip(ids, processes) {
            group.addTask {
              try await storage.finishAttachment(id, bytes: 6 * least, expires: Sample.noon, quota: quota)
            }
          }
          return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == .finished } == 1)
        #expect(outcomes.count { $0 == .quotaExceeded } == 3)
      }
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// Removals and uploads lock the same rows: in one order, or they would undo each other.
  @Test func `attachments are removed by many processes while others finish`() async throws {
    try await withPostgres { first, server, url in
      let store = Store(storage: first, clock: ManualClock(Sample.noon))
      let numbers = try await store.registerAccounts(4)
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      let quota = AttachmentQuota(bytesMax: 1 << 30)
      let ids = try (1...200 as ClosedRange<Int64>).map { try Sample.found(AttachmentID($0)) }
      for id in ids {
        let attachment = RelayCore.Attachment(
          id: id, account: numbers[Int(id.value) % 4], bytes: nil, expires: Sample.noon)
        #expect(try await first.addAttachment(attachment, quota: quota))
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (place, storage) in processes.enumerated() {
          group.addTask {
            for id in ids {
              _ = try await storage.finishAttachment(id, bytes: 9000, expires: Sample.noon, quota: quota)
            }
          }
          group.addTask {
            for page in stride(from: 0, to: 180, by: 20) {
              let some = ids[page..<page + 20]
              try await storage.removeAttachments(place.isMultiple(of: 2) ? Array(some) : some.reversed())
            }
          }
        }
        try await group.waitForAll()
      }
      // The remaining attachments are counted as they are.
      let charges = try server.sql("SELECT sum(total) FROM attachment_charges", in: url)
      #expect(try server.sql("SELECT sum(charge) FROM attachments", in: url) == charges)
      #expect(try server.sql("SELECT count(*) FROM attachments", in: url) == "20")
      #expect(charges == "180000")
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// Changes whose transactions last, so that they overlap: each waits for whoever took the feed's revision before it,
  /// and whatever the order in which they take their rows, none waits in a circle.
  @Test func `a reader that follows while several processes write misses nobody`() async throws {
    try await withPostgres { first, server, url in
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      try server.sql(
        """
        CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.002); RETURN NULL; END $$;
        CREATE TRIGGER linger AFTER INSERT OR UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION linger();
        """, in: url)
      try await followWhileManyWrite(to: processes, accounts: 200, limit: 3)
      #expect(
        try server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", in: url) == "0")
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  @Test func `a lease has one holder among processes`() async throws {
    try await withPostgres { first, _, url in
      let processes = try await [first] + PostgresStorage.connected(3, to: url)
      for round in 0..<10 {
        let holders = try await withThrowingTaskGroup(of: Bool.self) { group in
          for (holder, storage) in processes.enumerated() {
            group.addTask {
              try await storage.acquireLease("round \(round)", holder: Int64(holder), for: .seconds(60))
            }
          }
          return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(holders == 1)
      }
      for storage in processes.dropFirst() { await storage.close() }
    }
  }

  /// More than one step of the removal takes.
  @Test func `a removed peer leaves nothing, however much it had`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      for name in ["beta", "gamma"] {
        #expect(try await storage.savePeer(Sample.peer(name)))
        try server.sql(
          """
          INSERT INTO outbox_charges VALUES ('\(name)', 0, 0);
          INSERT INTO confirmed_devices SELECT g, '\(name)', '{1}', '{7}', g FROM generate_series(1, 2500) AS g;
          """, in: url)
      }
      #expect(try await storage.removePeer(peer.name) == .removed)
      for (table, count) in [("outbox_charges", "1"), ("confirmed_devices", "2500")] {
        #expect(try server.sql("SELECT count(*) FROM \(table)", in: url) == count)
      }
    }
  }
}
