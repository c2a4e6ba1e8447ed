// The statements that PostgreSQL gets for the acts that a relay lives on, by its own log.

import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresStatementCountTests {
  private static func withLoggedStore(_ body: (PostgresStorage, AskedStatements) async throws -> Void) async throws {
    let server = try await Loopback.blocking { try PostgresServer() }
    let url = try await Loopback.blocking { try server.createDatabase() }
    let storage = try await PostgresStorage.connected(to: url)
    do {
      try await storage.migrate { _ in }
      let asked = try AskedStatements(server, in: url)
      try await eventually("the server logs statements") {
        try await storage.ping()
        return try !asked.since("execute").isEmpty
      }
      try await body(storage, asked)
    } catch {
      await storage.close()
      throw error
    }
    await storage.close()
  }

  @Test func `each act asks one statement, which a connection prepares once`() async throws {
    try await Self.withLoggedStore { storage, asked in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      try await store.register(Sample.registration(1))
      let (mailbox, sender) = (try Sample.address(1), try Sample.address(2))
      _ = try asked.since("execute")

      for round in 0..<3 {
        // Accepted, and delivered to a connection at the same process: its window learns all that it needs.
        let envelopes = (0..<10).map { Sample.envelope(to: mailbox, from: sender, id: 10 * round + $0) }
        let appends = CollectedAppends([mailbox])
        try await storage.append(envelopes, watch: appends)
        #expect(appends.last.map { $0.place?.others } == Array(repeating: [], count: 10))
        #expect(try asked.since("execute") == ["append"])

        // Delivered to a connection at another process. The oldest day of a mailbox is asked once, while it is not
        // known.
        let read = MailboxRead(mailbox, held: [], limit: 100)
        let waiting = try await storage.waiting([read])
        #expect(waiting.map { $0.map(\.sequence) } == [appends.last.compactMap { $0.place?.sequence }])
        #expect(try asked.since("execute") == (round == 0 ? ["waiting", "today"] : ["waiting"]))

        // Acknowledged, with the receipts.
        let removals = waiting[0].map { queued in
          MailboxRemoval(
            MailboxPlace(mailbox, sequence: queued.sequence),
            receipt: DueReceipt(to: [sender.device], fingerprint: queued.envelope.fingerprint))
        }
        #expect(try await storage.remove(removals).count == 10)
        #expect(try asked.since("execute") == ["remove"])

        // The receipts are delivered and acknowledged.
        let receipts = try await storage.waiting([MailboxRead(sender, held: [], limit: 100)])
        #expect(receipts.map(\.count) == [10])
        #expect(try asked.since("execute") == (round == 0 ? ["waiting", "today"] : ["waiting"]))
        #expect(
          try await storage.remove(receipts[0].map { MailboxPlace(sender, sequence: $0.sequence) }).count == 10)
        #expect(try asked.since("execute") == ["remove"])

        // Looked up.
        #expect(try await storage.account(mailbox.account)?.devices.count == 1)
        #expect(try asked.since("execute") == ["account"])
        #expect(try await storage.entries(for: [Sample.token(mailbox.account)]).count == 1)
        #expect(try asked.since("execute") == ["entries"])
      }
    }
  }

  @Test func `draws of prekeys that come together share a statement`() async throws {
    try await Self.withLoggedStore { storage, asked in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let numbers = try await store.registerAccounts(40)
      for number in numbers {
        #expect(
          try await storage.replacePreKeys(of: DeviceAddress(number, .master), with: Sample.upload([1, 2])) == .stored)
      }
      _ = try asked.since("execute")
      let drawn = try await withThrowingTaskGroup(of: Int.self) { group in
        for number in numbers + numbers {
          group.addTask {
            let keys = try await storage.drawPreKeys(of: number, devices: [.master], oneTime: [.master], epoch: 0)
            return keys.count { [1, 2].contains($0.preKey?.keyID) }
          }
        }
        return try await group.reduce(0, +)
      }
      #expect(drawn == 80)
      let statements = try asked.since("execute")
      #expect(Set(statements) == ["draw_prekeys"])
      #expect(statements.count < 40, "\(statements.count)")
    }
  }

  @Test func `acknowledgements that come together share a statement`() async throws {
    try await Self.withLoggedStore { storage, asked in
      let (mailbox, sender) = (try Sample.address(1), try Sample.address(2))
      try await storage.append((0..<50).map { Sample.envelope(to: mailbox, from: sender, id: $0) })
      let waiting = try await storage.waiting([MailboxRead(mailbox, held: [], limit: 100)])
      _ = try asked.since("execute")
      let removed = try await withThrowingTaskGroup(of: Int.self) { group in
        for queued in waiting[0] {
          group.addTask { try await storage.remove([MailboxPlace(mailbox, sequence: queued.sequence)]).count }
        }
        return try await group.reduce(0, +)
      }
      #expect(removed == 50)
      let statements = try asked.since("execute")
      #expect(statements.count < 50 && Set(statements) == ["remove"])
    }
  }

  @Test func `a prepared statement is not prepared again`() async throws {
    try await Self.withLoggedStore { storage, asked in
      let (mailbox, sender) = (try Sample.address(1), try Sample.address(2))
      for id in 0..<5 { try await storage.append([Sample.envelope(to: mailbox, from: sender, id: id)]) }
      #expect(try asked.since("parse").count { $0 == "append" } == 1)
      for id in 5..<10 { try await storage.append([Sample.envelope(to: mailbox, from: sender, id: id)]) }
      #expect(try asked.since("parse").isEmpty)
    }
  }
}
