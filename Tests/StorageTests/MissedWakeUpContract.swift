import RelayCore
import Storage
import TestTags
import Testing

/// The word that mailboxes are to be read though nobody was woken.
@Suite(.tags(.stores)) struct MissedWakeUpContract {
  @Test(arguments: Backend.allCases)
  func `the number changes with each note, and with nothing else`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let first = try await store.storage.missedWakeUps()
      try await store.registerAccounts(2)
      try await store.storage.append([Sample.envelope(to: Sample.address(1), from: Sample.address(0), id: 1)])
      #expect(try await store.storage.missedWakeUps() == first)
      var seen: Set<Int64> = [first]
      for _ in 0..<3 {
        try await store.storage.noteMissedWakeUps()
        let present = try await store.storage.missedWakeUps()
        #expect(seen.insert(present).inserted)
        #expect(try await store.storage.missedWakeUps() == present)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `notes at once all count`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let first = try await store.storage.missedWakeUps()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<16 { group.addTask { try await store.storage.noteMissedWakeUps() } }
        try await group.waitForAll()
      }
      #expect(try await store.storage.missedWakeUps() == first + 16)
    }
  }
}
