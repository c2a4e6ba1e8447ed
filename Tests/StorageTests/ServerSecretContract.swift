import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct ServerSecretContract {
  @Test(arguments: Backend.allCases)
  func `a secret is the one stored first under its name`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mine, other) = ([0, 1, 255] as [UInt8], [2, 3] as [UInt8])
      let found = try await store.storage.serverSecret("a", orStore: mine)
      #expect(found == mine)
      #expect(try await store.storage.serverSecret("a", orStore: other) == mine)
      #expect(try await store.storage.serverSecret("b", orStore: other) == other)
      #expect(try await store.storage.serverSecret("a", orStore: []) == mine)
    }
  }

  @Test(arguments: Backend.allCases) func `64 that ask at once all get the same`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let secrets = try await withThrowingTaskGroup(of: [UInt8].self) { group in
        for caller in 0..<64 {
          group.addTask { try await store.storage.serverSecret("a", orStore: [UInt8(caller)]) }
        }
        return try await group.reduce(into: Set()) { $0.insert($1) }
      }
      #expect(secrets.count == 1)
    }
  }

  @Test(arguments: Backend.allCases) func `a secret is replaced by whoever knows it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (first, second) = ([0, 1, 255] as [UInt8], [2] as [UInt8])
      let before = try await store.storage.serverSecret("a")
      #expect(before == nil)
      #expect(try await !store.storage.replaceServerSecret("a", first, with: second))
      #expect(try await store.storage.serverSecret("a") == nil)
      #expect(try await store.storage.serverSecret("a", orStore: first) == first)
      #expect(try await !store.storage.replaceServerSecret("a", second, with: first))
      #expect(try await store.storage.replaceServerSecret("a", first, with: second))
      #expect(try await store.storage.serverSecret("a") == second)
      #expect(try await !store.storage.replaceServerSecret("a", first, with: []))
      #expect(try await store.storage.serverSecret("b") == nil)
    }
  }
}

@Suite(.tags(.stores)) struct ResealingContract {
  private static func key(_ byte: UInt8) -> SecretBytes { SecretBytes([UInt8](repeating: byte, count: 32)) }
  private static let changing = SecretSealer(current: key(2), former: key(1))

  /// Goes through all devices. - Returns: how many each step sealed anew.
  private static func reseal(_ store: Store, limit: Int) async throws -> [Int] {
    var (counts, last): ([Int], DeviceAddress?) = ([], nil)
    repeat {
      let step = try await store.storage.resealSecrets(after: last, limit: limit)
      counts.append(step.count)
      last = step.last
    } while last != nil
    return counts
  }

  private static func keys(_ store: Store, _ index: Int) async throws -> [Secret]? {
    try await store.storage.account(Sample.number(index))?.devices.map(\.signalingKey)
  }

  @Test(arguments: Backend.allCases)
  func `after resealing the current key opens all, step by step`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      try await open(SecretSealer(current: Self.key(1))) { store in
        try await store.registerAccounts(4)
        _ = try await store.linkActive(1)
        _ = try await store.linkActive(1)
        // Nothing to do without a former key.
        #expect(try await Self.reseal(store, limit: 9) == [0, 0])
      }
      try await open(Self.changing) { store in
        // One is under the current key by itself.
        try await store.register(Sample.registration(4))
        let devices = [try Sample.address(0), try Sample.address(1), try Sample.address(1, device: 2)]
        let first = try await store.storage.resealSecrets(after: nil, limit: 3)
        #expect(first == ResealedSecrets(count: 3, last: devices[2]))
        #expect(try await Self.reseal(store, limit: 3) == [0, 3, 0, 0])
        #expect(try await Self.reseal(store, limit: 100) == [0, 0])
      }
      try await open(SecretSealer(current: Self.key(2))) { store in
        for index in 0..<5 {
          let expected = try Sample.registration(index).device.signalingKey
          #expect(try await Self.keys(store, index)?.first == expected)
        }
        #expect(try await Self.keys(store, 1)?.dropFirst() == [Secret("bGlua2Vk9"), Secret("bGlua2Vk9")])
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a secret not under the former key stays as it is, and holds nothing up`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      // Without a code: the key of codes would be under another key, too.
      for (index, sealer) in [.none, SecretSealer(current: Self.key(3)), SecretSealer(current: Self.key(1))]
        .enumerated()
      {
        try await open(sealer) { store in
          let registration = try Sample.registration(index)
          _ = try await store.storage.register(registration, proof: .trusted, now: store.now)
        }
      }
      try await open(Self.changing) { store in
        let resealed = try await Self.reseal(store, limit: 1)
        #expect(resealed == [0, 0, 1, 0])
      }
      let expected = try (0..<2).map { try [Sample.registration($0).device.signalingKey] }
      try await open(.none) { store in
        let keys = try await Self.keys(store, 0)
        #expect(keys == expected[0])
      }
      try await open(SecretSealer(current: Self.key(3))) { store in
        let keys = try await Self.keys(store, 1)
        #expect(keys == expected[1])
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `devices that change meanwhile keep what they were given`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      try await open(SecretSealer(current: Self.key(1))) { store in try await store.registerAccounts(20) }
      try await open(Self.changing) { store in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<4 { group.addTask { _ = try await Self.reseal(store, limit: 3) } }
          for index in 0..<20 {
            group.addTask {
              var change = DeviceChange()
              change.signalingKey = .set(Secret("changed \(index)"))
              let isKnown = try await store.storage.updateDevice(Sample.address(index), change)
              #expect(isKnown)
            }
          }
          try await group.waitForAll()
        }
        #expect(try await Self.reseal(store, limit: 100) == [0, 0])
      }
      try await open(SecretSealer(current: Self.key(2))) { store in
        for index in 0..<20 {
          let keys = try await Self.keys(store, index)
          #expect(keys == [Secret("changed \(index)")])
        }
      }
    }
  }
}

/// The keys that the relay draws for itself.
@Suite(.tags(.stores)) struct ServerKeyContract {
  private static let name = ServerKeyName.oblivious
  private static let drawn = SecretBytes((0..<32).map { 255 - $0 })
  private static let former = SecretSealer(current: SecretBytes([UInt8](repeating: 1, count: 32)))
  private static let current = SecretSealer(
    current: SecretBytes([UInt8](repeating: 2, count: 32)), former: SecretBytes([UInt8](repeating: 1, count: 32)))
  private static let currentAlone = SecretSealer(current: SecretBytes([UInt8](repeating: 2, count: 32)))

  private static func key(_ store: Store) async throws -> [UInt8] {
    try await store.storage.serverKey(name) { drawn }.bytes
  }

  private static func expectKey(_ store: Store) async throws {
    let key = try await key(store)
    #expect(key == drawn.bytes)
  }

  /// The row shows nothing of the key.
  private static func expectSealed(_ store: Store) async throws {
    let row = try #require(try await store.storage.serverSecret(name.rawValue))
    #expect(row.count > name.byteCount)
    for index in row.indices.dropLast(7) {
      let part = Array(row[index..<index + 8])
      #expect(!drawn.bytes.indices.dropLast(7).contains { Array(drawn.bytes[$0..<$0 + 8]) == part })
    }
  }

  private static func expectLocked(_ store: Store) async throws {
    await #expect(throws: StoreError.self) { try await key(store) }
  }

  @Test(arguments: Backend.allCases)
  func `a key lies sealed from the first on, and is sealed anew with the encryption key`(_ backend: Backend)
    async throws
  {
    try await backend.withKeys { open in
      try await open(Self.former) { store in
        try await Self.expectKey(store)
        try await Self.expectSealed(store)
        let again = try await store.storage.serverKey(Self.name) { SecretBytes([UInt8](repeating: 9, count: 32)) }
        #expect(again.bytes == Self.drawn.bytes)
      }
      try await open(Self.current) { store in
        try await Self.expectKey(store)
        _ = try await store.storage.resealSecrets(after: nil, limit: 1)
      }
      try await open(Self.currentAlone) { store in try await Self.expectKey(store) }
      try await open(Self.former) { store in try await Self.expectLocked(store) }
      try await open(.none) { store in try await Self.expectLocked(store) }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a key from before there was an encryption key is sealed when it is read`(_ backend: Backend) async throws {
    try await backend.withKeys { open in
      try await open(.none) { store in
        try await Self.expectKey(store)
        let row = try await store.storage.serverSecret(Self.name.rawValue)
        #expect(row == Self.drawn.bytes)
      }
      try await open(Self.currentAlone) { store in
        try await Self.expectKey(store)
        try await Self.expectSealed(store)
        try await Self.expectKey(store)
      }
    }
  }
}
