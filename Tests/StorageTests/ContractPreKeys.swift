import RelayCore
import Storage
import Testing

@Suite struct PreKeyContract {
  /// One-time keys by smallest id, then the last resort (reference 1.6).
  @Test("Keys are served in the order of the vectors", arguments: Backend.allCases)
  func vectors(_ backend: Backend) async throws {
    let vectors = try Vectors.load().preKeySelection.filter { !$0.rule.hasPrefix("insertion order") }
    try #require(vectors.count == 2)
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      for vector in vectors {
        let served = try #require(vector.servesRecommended ?? vector.serves)
        let upload = Sample.upload(vector.uploaded.keys, lastResort: vector.uploaded.lastResort)
        #expect(try await store.storage.replacePreKeys(of: device, with: upload))
        for (index, expected) in served.enumerated() {
          if let counts = vector.countBeforeEach {
            #expect(try await store.storage.preKeyCount(of: device) == counts[index])
          }
          let drawn = try await store.storage.drawPreKeys(of: device.account, devices: [.master])
          #expect(drawn.map(\.preKey.keyID) == [expected])
        }
      }
    }
  }

  @Test("A drawn key comes with its device, its registration id and the identity key", arguments: Backend.allCases)
  func drawnKeyIsComplete(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1, registrationID: 4711))
      let device = try Sample.address(1)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([0], identity: "mine")))
      let drawn = try await store.storage.drawPreKeys(of: device.account, devices: [.master, .master])
      #expect(
        drawn == [
          DrawnPreKey(
            device: .master, registrationID: 4711, identityKey: "mine", preKey: PreKey(keyID: 0, publicKey: "key 0"))
        ])
      #expect(try await store.storage.account(device.account)?.identityKey == "mine")
    }
  }

  @Test("The last resort is never used up", arguments: Backend.allCases)
  func lastResortStays(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([])))
      #expect(try await store.storage.preKeyCount(of: device) == 0)
      for _ in 0..<5 {
        let drawn = try await store.storage.drawPreKeys(of: device.account, devices: [.master])
        #expect(drawn.map(\.preKey.publicKey) == ["last resort"])
      }
    }
  }

  @Test("An upload replaces all keys of its device; of two with one id the later wins", arguments: Backend.allCases)
  func uploadReplaces(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (device, other) = try (Sample.address(1), Sample.address(2))
      #expect(try await store.storage.replacePreKeys(of: other, with: Sample.upload([1])))
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([1, 2, 3], lastResort: 9)))
      let second = PreKeyUpload(
        identityKey: "newer",
        oneTimeKeys: [PreKey(keyID: 5, publicKey: "former"), PreKey(keyID: 5, publicKey: "later")],
        lastResort: PreKey(keyID: 1 << 40, publicKey: "newest resort"))
      #expect(try await store.storage.replacePreKeys(of: device, with: second))

      #expect(try await store.storage.preKeyCount(of: device) == 1)
      let first = try await store.storage.drawPreKeys(of: device.account, devices: [.master])
      #expect(first.map(\.preKey) == [PreKey(keyID: 5, publicKey: "later")])
      #expect(first.map(\.identityKey) == ["newer"])
      let then = try await store.storage.drawPreKeys(of: device.account, devices: [.master])
      #expect(then.map(\.preKey) == [PreKey(keyID: 1 << 40, publicKey: "newest resort")])
      #expect(try await store.storage.preKeyCount(of: other) == 1)
    }
  }

  @Test("Nothing is stored for a device that does not exist", arguments: Backend.allCases)
  func unknownDevice(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      for device in try [Sample.address(1, device: 2), Sample.address(7)] {
        #expect(try await !store.storage.replacePreKeys(of: device, with: Sample.upload([1])))
        #expect(try await store.storage.preKeyCount(of: device) == 0)
        #expect(try await store.storage.drawPreKeys(of: device.account, devices: [device.device]).isEmpty)
      }
      #expect(try await store.storage.account(Sample.number(1))?.identityKey == nil)
      #expect(try await store.storage.drawPreKeys(of: Sample.number(1), devices: []).isEmpty)
    }
  }

  @Test("64 callers who draw 1,000 keys get none twice", arguments: Backend.allCases)
  func noKeyTwice(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      let ids = (0..<1000).map(Int64.init)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload(ids.shuffled())))
      let drawn = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for _ in 0..<64 {
          group.addTask {
            var mine: [Int64] = []
            while true {
              let keys = try await store.storage.drawPreKeys(of: device.account, devices: [.master])
              guard let key = keys.first?.preKey, key.keyID != 0xFFFFFF else { return mine }
              mine.append(key.keyID)
            }
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      #expect(drawn.count == 1000)
      #expect(Set(drawn) == Set(ids))
      #expect(try await store.storage.preKeyCount(of: device) == 0)
    }
  }
}
