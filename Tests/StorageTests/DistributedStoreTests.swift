// A distributed store differs from one whole database in this. The contracts run on it too (`Backend.distributed`).

import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores), .enabled(if: CitusServers.isOffered, Comment(rawValue: CitusServers.absence)))
struct DistributedStoreTests {
  private func withStore(_ body: (PostgresStorage, String) async throws -> Void) async throws {
    try await withDistributedDatabase { url in
      try await distribute(url)
      try await use(url) { try await body($0, url) }
    }
  }

  private func use(_ url: String, _ body: (PostgresStorage) async throws -> Void) async throws {
    let storage = try await PostgresStorage.connected(to: url)
    do {
      try await body(storage)
    } catch {
      await storage.close()
      throw error
    }
    await storage.close()
  }

  @Test func `a store learns that it is distributed with its first answer`() async throws {
    try await withStore { storage, url in
      #expect(await storage.layout == .distributed)
      // One that has not connected yet waits for it.
      let other = try PostgresStorage(url: url, logger: .quiet)
      #expect(await other.layout == .distributed)
      await other.close()
    }
    try await withPostgres { storage, _, _ in #expect(await storage.layout == .whole) }
  }

  @Test func `a clock that was ahead keeps no device from being woken`() async throws {
    try await withStore { storage, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let devices = [try await store.registerAtGoogle(1), try await store.registerAtGoogle(2)]
      try await store.putOff(devices)
      _ = try await Loopback.blocking { try CitusServers.shared().coordinator.sql(Store.dayAhead, in: url) }
      try await store.expectFree(devices)
    }
  }

  @Test func `a batch for many accounts is stored and removed at all servers, or at none`() async throws {
    try await withStore { storage, url in
      let coordinator = try await Loopback.blocking { try CitusServers.shared().coordinator }
      let mailboxes = try (1...40).map { try Sample.address($0) }
      let source = try Sample.address(50)
      try await storage.append(mailboxes.map { Sample.envelope(to: $0, from: source, id: 1) })
      let perServer = "SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'messages'::regclass"
      #expect(try await Loopback.blocking { try coordinator.sql(perServer, in: url) } == "2")

      let reads = mailboxes.map { MailboxRead($0, held: [], limit: 10) }
      let waiting = try await storage.waiting(reads)
      #expect(waiting.map(\.count) == Array(repeating: 1, count: 40))
      // Numbered in the order of the batch, wherever the mailboxes lie.
      let sequences = waiting.map { $0.first?.sequence ?? 0 }
      #expect(sequences == sequences.sorted())

      let places = zip(mailboxes, sequences).map { MailboxPlace($0, sequence: $1) }
      #expect(try await storage.queued(among: places) == Set(places))
      #expect(try await storage.remove(places) == Set(places))
      // Acknowledged once: not stored again.
      try await storage.append(mailboxes.map { Sample.envelope(to: $0, from: source, id: 1) })
      #expect(try await storage.queued(among: places).isEmpty)
      #expect(try await storage.waiting(reads).allSatisfy(\.isEmpty))
    }
  }

  @Test func `draws for many accounts come together, and no key is given out while the store is behind one's epoch`()
    async throws
  {
    try await withStore { storage, _ in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let numbers = try await store.registerAccounts(40)
      for number in numbers {
        #expect(
          try await storage.replacePreKeys(of: DeviceAddress(number, .master), with: Sample.upload([2, 1])) == .stored)
      }
      let epoch = try await storage.epoch()
      func drawn(at epochs: [Int64]) async throws -> [Int64: Int] {
        try await withThrowingTaskGroup(of: Int64?.self) { group in
          for (number, epoch) in zip(numbers, epochs) {
            group.addTask {
              let keys = try await storage.drawPreKeys(of: number, devices: [.master], oneTime: [.master], epoch: epoch)
              return keys.first?.preKey?.keyID
            }
          }
          return try await group.reduce(into: [:]) { $0[$1 ?? -1, default: 0] += 1 }
        }
      }
      #expect(try await drawn(at: Array(repeating: epoch, count: 40)) == [1: 40])
      #expect(try await drawn(at: Array(repeating: epoch + 1, count: 40)) == [0xFFFFFF: 40])
      #expect(try await drawn(at: Array(repeating: epoch, count: 40)) == [2: 40])
    }
  }

  @Test func `several statements are carried out at all servers, or at none`() async throws {
    try await withStore { storage, url in
      let coordinator = try await Loopback.blocking { try CitusServers.shared().coordinator }
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let numbers = try await store.registerAccounts(8)
      for number in numbers {
        #expect(
          try await storage.replacePreKeys(of: DeviceAddress(number, .master), with: Sample.upload([2, 1])) == .stored)
      }
      func left() async throws -> String {
        try await Loopback.blocking { try coordinator.sql("SELECT count(*) FROM one_time_prekeys", in: url) }
      }
      // Each is for one account, and goes to its worker as it is.
      let removals = numbers.map { PostgresStep("all_prekeys", "DELETE FROM one_time_prekeys WHERE account = \($0)") }
      let failing = PostgresStep(.once("SELECT 1 / 0"))
      await #expect(throws: PostgresError.self) { try await storage.writes.transaction(removals + [failing]) }
      #expect(try await left() == "16")
      await #expect(throws: PostgresError.self) { try await storage.writes.sharedWrites(removals + [failing]) }
      #expect(try await left() == "16")
      // The connection goes on, and those that shared a transaction with what failed have their own outcome.
      async let failed = storage.writes.sharedWrites([failing])
      async let first = storage.writes.sharedWrites([removals[0]])
      async let second = storage.writes.sharedWrites([removals[1]])
      _ = try await (first, second)
      #expect(await (try? failed) == nil)
      #expect(try await left() == "12")
      _ = try await storage.writes.transaction(removals)
      #expect(try await left() == "0")
    }
  }

  @Test func `several processes that claim at once share the jobs, and each job is one's`() async throws {
    try await withStore { storage, url in
      let stores = [storage, try await PostgresStorage.connected(to: url)]
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      var devices: [DeviceAddress] = []
      for number in 1...24 {
        try await store.register(Sample.registration(number))
        let device = try Sample.address(number)
        let ids = DeviceChange.register(.apns(Secret("apns-\(number)"), voip: nil), at: Sample.noon)
        #expect(try await storage.updateDevice(device, ids))
        devices.append(device)
      }
      let terms = WakeTerms(providers: [.apns], lifetime: .seconds(3600))
      let asked = try await storage.askToWake(devices.map { WakeAsk($0) }, afterForgetting: [], terms)
      #expect(asked == 24)
      let claimed = try await withThrowingTaskGroup(of: [DeviceAddress].self) { group in
        for claim in 1...12 {
          group.addTask {
            try await stores[claim % 2].claimWakes(of: .apns, claim: Int64(claim), limit: 4, for: .seconds(60))
              .map(\.device)
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      #expect(claimed.count == 24 && Set(claimed) == Set(devices))
      await stores[1].close()
    }
  }

  @Test func `partitions are made and dropped at all servers`() async throws {
    try await withStore { storage, url in
      let servers = try await Loopback.blocking { try CitusServers.shared() }
      let today = Int(try await storage.clockReading().now.day) - Int(ClockJudge.daysTo2000)
      try await storage.maintenance.run { connection throws(StoreError) in
        let past = PostgresMailboxDays.Day(today - 40)
        try await PostgresPartitions.cover(past...past, of: .messages, over: connection)
      }
      func days() async throws -> [Int] {
        try await Loopback.blocking { try servers.coordinator.days(of: "messages", in: url) }
      }
      #expect(try await days() == [-40, 0, 1])
      _ = try await storage.maintain(RetentionTerms(messages: .seconds(30 * 86_400)))
      #expect(try await days() == [0, 1])
      for worker in servers.workers {
        let left = try await Loopback.blocking {
          try worker.sql(
            """
            SET citus.override_table_visibility = off;
            SELECT count(*) FROM pg_class WHERE relname ~ '^messages_[0-9]{8}_[0-9]+$' AND relkind = 'r'
            """, in: url)
        }
        // Two shards, each with two days.
        #expect(left == "4")
      }
    }
  }

  @Test func `while a server is away, the accounts of the others are served`() async throws {
    let servers = try await Loopback.blocking { try CitusServers() }
    let url = try await Loopback.blocking { try servers.createDatabase() }
    try await distribute(url)
    let mailboxes = try (1...20).map { try Sample.address($0) }
    let ports = try await Loopback.blocking {
      try mailboxes.map { mailbox in
        try servers.coordinator.sql(
          """
          SELECT nodeport FROM citus_shards
          WHERE shardid = get_shard_id_for_distribution_column('messages', \(mailbox.account.digits)::bigint)
          """, in: url)
      }
    }
    let gone = servers.workers[1]
    try await use(url) { storage in
      #expect(try await accepted(id: 1, mailboxes, by: storage).allSatisfy { $0 })
      try await Loopback.blocking { try gone.stop() }
      let expected = ports.map { $0 != "\(gone.port)" }
      #expect(Set(expected) == [true, false])
      // The first statements find a connection that has ended.
      try await eventually("the others are served") { try await accepted(id: 2, mailboxes, by: storage) == expected }
      try await Loopback.blocking { try gone.start() }
      try await eventually("all are served") { try await accepted(id: 3, mailboxes, by: storage).allSatisfy { $0 } }
    }
  }

  /// Callers at once, who share batches. - Returns: whether each message was stored.
  private func accepted(id: Int, _ mailboxes: [DeviceAddress], by storage: PostgresStorage) async throws -> [Bool] {
    let source = try Sample.address(50)
    return await withTaskGroup(of: (Int, Bool).self) { group in
      for (index, mailbox) in mailboxes.enumerated() {
        group.addTask {
          do throws(StoreError) {
            try await storage.append([Sample.envelope(to: mailbox, from: source, id: id)])
            return (index, true)
          } catch {
            return (index, false)
          }
        }
      }
      var all = Array(repeating: false, count: mailboxes.count)
      for await (index, isAccepted) in group { all[index] = isAccepted }
      return all
    }
  }
}
