import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct LeaseContract {
  @Test(arguments: Backend.allCases)
  func `a lease has one holder, who may renew it and give it up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      func acquire(_ name: String, _ holder: Int64) async throws -> Bool {
        try await store.storage.acquireLease(name, holder: holder, for: .seconds(60))
      }
      #expect(try await acquire("outbox", 1))
      #expect(try await acquire("outbox", 1))
      #expect(try await !acquire("outbox", -2))
      // A lease is for that name alone, and only its holder gives it up.
      #expect(try await acquire("directory", -2))
      try await store.storage.releaseLease("outbox", holder: -2)
      #expect(try await !acquire("outbox", -2))
      try await store.storage.releaseLease("outbox", holder: 1)
      #expect(try await acquire("outbox", -2))
      #expect(try await !acquire("outbox", 1))
      try await store.storage.releaseLease("nobody's", holder: 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a caller that does not hear of the holder gets the lease when it has run out`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      // By PostgreSQL's clock time goes by itself, and a busy machine is slow.
      func acquire(_ holder: Int64) async throws -> Bool {
        try await store.storage.acquireLease("outbox", holder: holder, for: .seconds(8))
      }
      #expect(try await acquire(1))
      #expect(try await !acquire(2))
      // One of the two clocks is the store's.
      store.clock.advance(.milliseconds(7999))
      if backend == .embedded { #expect(try await !acquire(2)) }
      store.clock.advance(.milliseconds(1))
      let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(60))
      while try await !acquire(2) {
        guard ContinuousClock.now < deadline else {
          Issue.record("the lease never ran out")
          return
        }
        try await Task.sleep(for: .milliseconds(20))
      }
      #expect(try await !acquire(1))
      // Housekeeping leaves the leases that are held alone.
      #expect(try await store.storage.acquireLease("outbox", holder: 2, for: .seconds(60)))
      _ = try await store.storage.maintain(RetentionTerms(messages: .seconds(86_400)))
      #expect(try await !acquire(1))
    }
  }

  @Test(arguments: Backend.allCases)
  func `of 32 callers that take a lease at once, one gets it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let holders = try await withThrowingTaskGroup(of: Bool.self) { group in
        for holder in 0..<32 as Range<Int64> {
          group.addTask { try await store.storage.acquireLease("outbox", holder: holder, for: .seconds(60)) }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(holders == 1)
    }
  }
}
