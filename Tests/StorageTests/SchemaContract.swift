import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct SchemaContract {
  @Test(arguments: Backend.allCases)
  func `a new store is too old until its migrations ran`(_ backend: Backend) async throws {
    try await backend.withStore(migrated: false) { store in
      let before = try await store.storage.migrations()
      #expect(before.map(\.version) == Array(1...before.count))
      #expect(before.allSatisfy { $0.applied == nil && !$0.name.isEmpty })
      guard case .tooOld(version: 0, needed: 1...) = try await store.storage.compatibility() else {
        Issue.record("a new store counts as usable")
        return
      }
      try await store.storage.ping()

      let reported = Collected<MigrationStatus>()
      try await store.storage.migrate { reported.add($0) }
      let after = try await store.storage.migrations()
      #expect(after.allSatisfy { $0.applied != nil })
      #expect(reported.values == after)
      #expect(try await store.storage.compatibility() == .usable(version: before.count))
    }
  }

  @Test(arguments: Backend.allCases)
  func `migrations run once, however often and by however many they are started`(_ backend: Backend) async throws {
    try await backend.withStore(migrated: false) { store in
      let runs = Counter()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<4 { group.addTask { try await store.storage.migrate { _ in runs.add() } } }
        try await group.waitForAll()
      }
      let after = try await store.storage.migrations()
      #expect(runs.value == after.count)
      try await store.register(Sample.registration(1))
      try await store.storage.migrate { _ in Issue.record("a step ran twice") }
      #expect(try await store.storage.migrations() == after)
      #expect(try await store.storage.accountCount() == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `texts of clients come back with every character`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let odd = "a\0b \u{1F600} \u{301} '\"; --\u{FFFD}\r\n"
      let sample = try Sample.registration(1)
      var device = sample.device
      (device.name, device.userAgent, device.signalingKey) = (odd, odd, Secret(odd))
      for kind in PushIDKind.allCases { device.pushIDs[kind] = Secret(odd) }
      let registration = Registration(
        number: sample.number, token: sample.token, device: device, supportsSMS: true, voice: true)
      #expect(try await store.register(registration) == .registered)
      #expect(try await store.storage.account(sample.number)?.devices == [device])

      let key = PreKey(keyID: 1, publicKey: odd)
      let upload = PreKeyUpload(identityKey: odd, oneTimeKeys: [key], lastResort: key)
      #expect(try await store.storage.replacePreKeys(of: Sample.address(1), with: upload) == .stored)
      let drawn = try await store.draw(from: sample.number)
      #expect(drawn.map(\.identityKey) == [odd])
      #expect(drawn.map(\.preKey) == [key])
    }
  }
}
