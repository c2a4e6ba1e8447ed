import RelayCore
import Storage
import Testing

/// Messages that are held in one transaction.
extension OutboxContract {
  @Test(arguments: Backend.allCases)
  func `several are held together, in their order, each once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let messages = try (0..<40).map { try Sample.outgoing($0, from: $0 % 7, to: 100 + $0 % 3) }
      #expect(try await store.hold(messages[5]))
      // One that is held already and one that comes twice.
      let repeated = messages + [messages[7]]
      #expect(try await store.hold(repeated) == repeated.map { _ in true })
      #expect(try await store.outbox().map(\.message) == [messages[5]] + messages[..<5] + messages[6...])
      let usage = try #require(try await store.storage.outboxUsage().first)
      #expect(usage.messages == 40 && usage.bytes == 400)
      #expect(try await store.hold([]).isEmpty)
      #expect(try await store.hold(repeated) == repeated.map { _ in true })
      #expect(try await store.storage.outboxUsage() == [usage])
    }
  }

  @Test(arguments: Backend.allCases)
  func `if several do not all fit, the ones from the first without room on are not held`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let messages = try (0..<6).map { try Sample.outgoing($0) }
      let four = OutboxBounds(messagesMax: 4, bytesMax: 1000, age: .seconds(60))
      #expect(try await store.hold(messages[4]))
      #expect(try await store.hold(messages, four) == [true, true, true, false, true, false])
      #expect(try await store.outbox().map(\.message) == [messages[4]] + messages[..<3])
      // Bytes: a large one without room keeps the small ones behind it out, and takes nothing from what comes next.
      let bytes = OutboxBounds(messagesMax: 100, bytesMax: 100, age: .seconds(60))
      let large = try Sample.outgoing(10, bytes: 61)
      #expect(try await store.hold([large, messages[3], messages[0]], bytes) == [false, false, true])
      #expect(try await store.hold([messages[3], large], bytes) == [true, false])
      let usage = try #require(try await store.storage.outboxUsage().first)
      #expect(usage.messages == 5 && usage.bytes == 50)
      #expect(try await store.storage.setPeerState(.suspended, of: Sample.relay("beta")))
      #expect(try await store.hold([messages[5], messages[0]]) == [false, true])
    }
  }

  @Test(arguments: Backend.allCases)
  func `while many processes hold several at once, each one's order is kept`(_ backend: Backend) async throws {
    try await backend.withStores(3) { stores in
      #expect(try await stores[0].storage.savePeer(Sample.peer("beta")))
      try await withThrowingTaskGroup(of: Void.self) { group in
        for writer in 0..<Self.writers {
          group.addTask {
            let own = try (0..<Self.perWriter).map { try Sample.outgoing(1000 * writer + $0, from: writer) }
            for first in stride(from: 0, to: own.count, by: 7) {
              let some = Array(own[first..<min(first + 7, own.count)])
              #expect(try await stores[writer % stores.count].hold(some) == some.map { _ in true })
            }
          }
        }
        try await group.waitForAll()
      }
      try Self.expectAll(try await stores[0].outbox(page: 1000).map(\.message))
      let usage = try #require(try await stores[1].storage.outboxUsage().first)
      #expect(usage.messages == Self.writers * Self.perWriter)
    }
  }
}
