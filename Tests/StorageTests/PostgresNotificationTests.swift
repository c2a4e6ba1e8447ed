import Logging
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Several processes over one database.
@Suite(.tags(.stores)) struct PostgresNotificationTests {
  private static let (stores, writersOfEach, sendsOfEach) = (4, 2, 25)

  @Test func `a reader that asks for news since its last number sees each once, while others send`() async throws {
    try await withPostgres { storage, _, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let recipient = try Sample.recipient(1)
      let user = try await store.addAccount(recipients: 1)
      let processes = try await PostgresStorage.connected(Self.stores, to: url)
      let total = Self.stores * Self.writersOfEach * Self.sendsOfEach
      let seen = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for process in processes {
          for _ in 0..<Self.writersOfEach {
            group.addTask { try await Self.write(to: recipient, of: user, process, now: store.now) }
          }
        }
        group.addTask { try await Self.read(recipient, total: total, storage) }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      for process in processes { await process.close() }
      #expect(seen.count == total && Set(seen).count == total && seen == seen.sorted())
    }
  }

  private static func write(
    to recipient: RecipientNumber, of user: NotificationUser, _ storage: PostgresStorage, now: Timestamp
  ) async throws -> [Int64] {
    for index in 0..<sendsOfEach {
      // Events take numbers between those that the reader sees.
      if index % 3 == 0 {
        try await storage.unsubscribe(recipient, of: user, fromAll: false, subject: Sample.noText, now: now)
      }
      let outcome = try await storage.send(
        Sample.hello, to: [Sample.address(recipient)], of: user, recipientsMax: 10, now: now, due: now)
      guard case .sent = outcome else { throw StoreFixtureFailure() }
    }
    return []
  }

  private static func read(
    _ recipient: RecipientNumber, total: Int, _ storage: PostgresStorage
  ) async throws -> [Int64] {
    var seen: [Int64] = []
    try await eventually("all are seen", within: .seconds(240), every: .milliseconds(1)) {
      seen += try await storage.notifications(for: recipient, after: seen.last ?? 0, since: nil, limit: 3).map(\.number)
      return seen.count >= total
    }
    return seen
  }
}
