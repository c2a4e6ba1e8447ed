import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct PreKeyContract {
  /// One-time keys by smallest id, then the last resort (reference 1.6).
  @Test(arguments: Backend.allCases)
  func `keys are served in the order of the vectors`(_ backend: Backend) async throws {
    let vectors = try Vectors.load().preKeySelection.filter { !$0.rule.hasPrefix("insertion order") }
    try #require(vectors.count == 2)
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      for vector in vectors {
        let served = try #require(vector.servesRecommended ?? vector.serves)
        let upload = Sample.upload(vector.uploaded.keys, lastResort: vector.uploaded.lastResort)
        #expect(try await store.storage.replacePreKeys(of: device, with: upload) == .stored)
        for (index, expected) in served.enumerated() {
          if let counts = vector.countBeforeEach {
            #expect(try await store.storage.preKeyCount(of: device) == counts[index])
          }
          let drawn = try await store.draw(from: device.account)
          #expect(drawn.map(\.preKey?.keyID) == [expected])
        }
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `a drawn key comes with its device, its registration id and the identity key`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1, registrationID: 4711))
      let device = try Sample.address(1)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([0], identity: "mine")) == .stored)
      let drawn = try await store.draw(from: device.account, [.master, .master])
      #expect(
        drawn == [
          DrawnPreKey(
            device: .master, registrationID: 4711, identityKey: "mine", preKey: PreKey(keyID: 0, publicKey: "key 0"))
        ])
      #expect(try await store.storage.account(device.account)?.identityKey == "mine")
    }
  }

  @Test(arguments: Backend.allCases) func `the last resort is never used up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([])) == .stored)
      #expect(try await store.storage.preKeyCount(of: device) == 0)
      for _ in 0..<5 {
        let drawn = try await store.draw(from: device.account)
        #expect(drawn.map(\.preKey?.publicKey) == ["last resort"])
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `an upload replaces all keys of its device; of two with one id the later wins`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (device, other) = try (Sample.address(1), Sample.address(2))
      #expect(try await store.storage.replacePreKeys(of: other, with: Sample.upload([1])) == .stored)
      #expect(
        try await store.storage.replacePreKeys(of: device, with: Sample.upload([1, 2, 3], lastResort: 9)) == .stored)
      let second = PreKeyUpload(
        identityKey: "newer",
        oneTimeKeys: [PreKey(keyID: 5, publicKey: "former"), PreKey(keyID: 5, publicKey: "later")],
        lastResort: PreKey(keyID: 1 << 40, publicKey: "newest resort"))
      #expect(try await store.storage.replacePreKeys(of: device, with: second) == .stored)

      #expect(try await store.storage.preKeyCount(of: device) == 1)
      let first = try await store.draw(from: device.account)
      #expect(first.map(\.preKey) == [PreKey(keyID: 5, publicKey: "later")])
      #expect(first.map(\.identityKey) == ["newer"])
      let then = try await store.draw(from: device.account)
      #expect(then.map(\.preKey) == [PreKey(keyID: 1 << 40, publicKey: "newest resort")])
      #expect(try await store.storage.preKeyCount(of: other) == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `nothing is stored for a device that does not exist`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      for device in try [Sample.address(1, device: 2), Sample.address(7)] {
        #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([1])) == .noDevice)
        #expect(try await store.storage.preKeyCount(of: device) == 0)
        #expect(try await store.draw(from: device.account, [device.device]).isEmpty)
      }
      #expect(try await store.storage.account(Sample.number(1))?.identityKey == nil)
      #expect(try await store.draw(from: Sample.number(1), []).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `64 callers who draw 1,000 keys get none twice`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      let ids = (0..<1000).map(Int64.init)
      #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload(ids.shuffled())) == .stored)
      let drawn = try await withThrowingTaskGroup(of: [Int64].self) { group in
        for _ in 0..<64 {
          group.addTask {
            var mine: [Int64] = []
            while true {
              let keys = try await store.draw(from: device.account)
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

  @Test(arguments: Backend.allCases)
  func `draws of many accounts at once give each its own keys, and last resorts to those who may have no other`(
    _ backend: Backend
  ) async throws {
    try await backend.withStore { store in
      let numbers = try await store.registerAccounts(12)
      for (index, number) in numbers.enumerated() {
        let ids = (0..<5).map { Int64(100 * index + $0) }
        #expect(
          try await store.storage.replacePreKeys(
            of: DeviceAddress(number, .master), with: Sample.upload(ids, identity: "identity \(index)")) == .stored)
      }
      // Every third caller may have no one-time key.
      let drawn = try await withThrowingTaskGroup(of: (Int, Bool, [DrawnPreKey]).self) { group in
        for (index, number) in numbers.enumerated() {
          for caller in 0..<9 {
            let mayTake = caller % 3 != 0
            group.addTask {
              let keys = try await store.storage.drawPreKeys(
                of: number, devices: [.master], oneTime: mayTake ? [.master] : [], epoch: 0)
              return (index, mayTake, keys)
            }
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      for (index, number) in numbers.enumerated() {
        let own = drawn.filter { $0.0 == index }
        #expect(own.allSatisfy { $0.2.map(\.identityKey) == ["identity \(index)"] })
        #expect(own.filter { !$0.1 }.allSatisfy { $0.2.first?.preKey?.publicKey == "last resort" })
        let ids = own.filter(\.1).compactMap { $0.2.first?.preKey?.keyID }.filter { $0 != 0xFFFFFF }
        #expect(ids.sorted() == (0..<5).map { Int64(100 * index + $0) })
        #expect(try await store.storage.preKeyCount(of: DeviceAddress(number, .master)) == 0)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `keys that an upload does not bring stay, except one-time keys`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let device = try Sample.address(1)
      let (first, second) = (Sample.signedKey(1), Sample.signedKey(2))
      #expect(
        try await store.storage.replacePreKeys(of: device, with: Sample.upload([1, 2], lastResort: 9, signed: first))
          == .stored)
      #expect(try await store.storage.signedPreKey(of: device) == first)
      #expect(
        try await store.storage.replacePreKeys(of: device, with: Sample.upload([], lastResort: nil)) == .stored)
      #expect(try await store.storage.preKeyCount(of: device) == 0)
      #expect(try await store.draw(from: device.account).map(\.preKey?.keyID) == [9])
      #expect(try await store.storage.signedPreKey(of: device) == first)
      #expect(
        try await store.storage.replacePreKeys(of: device, with: Sample.upload([], lastResort: 10, signed: second))
          == .stored)
      let drawn = try await store.draw(from: device.account)
      #expect(drawn.map(\.preKey?.keyID) == [10])
      #expect(drawn.map(\.signedPreKey) == [second])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a signed prekey is its device's, and goes with it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let (master, key) = (try Sample.address(1), Sample.signedKey(4))
      let linked = try await store.linkActive(1)
      #expect(try await store.storage.signedPreKey(of: master) == nil)
      #expect(try await store.storage.account(master.account)?.devices.map(\.hasSignedPreKey) == [false, true])
      #expect(try await store.storage.setSignedPreKey(key, of: master, identityKey: "identity"))
      #expect(try await store.storage.signedPreKey(of: master) == key)
      #expect(try await store.storage.signedPreKey(of: linked) == Sample.signedKey(Int64(linked.device.value)))
      #expect(try await store.storage.account(master.account)?.devices.map(\.hasSignedPreKey) == [true, true])
      for unknown in try [Sample.address(1, device: 7), Sample.address(7)] {
        #expect(try await !store.storage.setSignedPreKey(key, of: unknown, identityKey: "identity"))
        #expect(try await store.storage.signedPreKey(of: unknown) == nil)
      }
      try await store.register(Sample.registration(1))
      #expect(try await store.storage.signedPreKey(of: master) == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a device with a signed prekey alone is drawn with it, one with none is not`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let master = try Sample.address(1)
      let linked = try await store.linkActive(1)
      let devices = [linked.device, .master]
      let upload = Sample.upload([3], lastResort: nil)
      #expect(try await store.storage.replacePreKeys(of: master, with: upload) == .stored)
      let first = try await store.draw(from: master.account, devices)
      #expect(
        first == [
          DrawnPreKey(
            device: .master, registrationID: 7, identityKey: "identity",
            preKey: PreKey(keyID: 3, publicKey: "key 3")),
          DrawnPreKey(
            device: linked.device, registrationID: 9, identityKey: "identity", preKey: nil,
            signedPreKey: Sample.signedKey(Int64(linked.device.value))),
        ])
      #expect(try await store.draw(from: master.account, devices).map(\.device) == [linked.device])
    }
  }

  @Test(arguments: Backend.allCases)
  func `devices that may not give one-time keys give their last resort`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let master = try Sample.address(1)
      let linked = try await store.linkActive(1)
      #expect(try await store.storage.replacePreKeys(of: master, with: Sample.upload([1, 2])) == .stored)
      #expect(
        try await store.storage.replacePreKeys(of: linked, with: Sample.upload([1, 2], lastResort: nil)) == .stored)
      let devices = [DeviceID.master, linked.device]
      let both = try await store.draw(from: master.account, devices, oneTime: [linked.device])
      #expect(both.map(\.preKey?.keyID) == [0xFFFFFF, 1])
      let none = try await store.draw(from: master.account, devices, oneTime: [])
      #expect(none.map(\.preKey?.keyID) == [0xFFFFFF, nil])
      #expect(none.map { $0.signedPreKey == nil } == [true, false])
      // Only `devices` are drawn from.
      let one = try await store.draw(from: master.account, [.master], oneTime: devices)
      #expect(one.map(\.preKey?.keyID) == [1])
      #expect(try await store.storage.preKeyCount(of: master) == 1)
      #expect(try await store.storage.preKeyCount(of: linked) == 1)
    }
  }

  /// Reference Part 6, 10.
  @Test(arguments: Backend.allCases) func `only device 1 changes the identity key`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let master = try Sample.address(1)
      let linked = try Sample.address(1, device: 2)
      #expect(try await store.link(Sample.link(1)) == .linked(linked.device))
      func upload(_ device: DeviceAddress, _ identity: String) async throws -> PreKeyUploadOutcome {
        try await store.storage.replacePreKeys(
          of: device, with: Sample.upload([1], identity: identity, signed: Sample.signedKey(50)))
      }
      func identity() async throws -> String? { try await store.storage.account(master.account)?.identityKey }

      #expect(try await upload(linked, "first") == .stored)
      #expect(try await identity() == "first")
      #expect(try await upload(linked, "first") == .stored)
      #expect(try await upload(master, "second") == .stored)
      #expect(try await identity() == "second")
      #expect(
        try await store.storage.setSignedPreKey(Sample.signedKey(60), of: linked, identityKey: "second"))
      #expect(try await store.draw(from: master.account, [linked.device]).map(\.preKey?.keyID) == [1])
      // Nothing of what is refused is stored.
      #expect(try await upload(linked, "third") == .identityRefused)
      #expect(try await identity() == "second")
      #expect(try await store.storage.signedPreKey(of: linked) == Sample.signedKey(60))
      #expect(try await store.storage.preKeyCount(of: linked) == 0)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a changed identity key takes the signed prekeys of all devices with it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (master, other) = (try Sample.address(1), try Sample.address(2))
      let linked = [try await store.linkActive(1), try await store.linkActive(1)]
      let key = Sample.signedKey(4)
      for device in [master, other] {
        #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([1], signed: key)) == .stored)
      }
      func signed() async throws -> [Bool]? {
        try await store.storage.account(master.account)?.devices.map(\.hasSignedPreKey)
      }
      // The same again changes nothing.
      #expect(try await store.storage.replacePreKeys(of: master, with: Sample.upload([1])) == .stored)
      #expect(try await signed() == [true, true, true])

      let revision = try await store.storage.accountsRevision()
      let changed = Sample.upload([1], identity: "second", signed: Sample.signedKey(5))
      #expect(try await store.storage.replacePreKeys(of: master, with: changed) == .stored)
      #expect(try await signed() == [true, false, false])
      #expect(try await store.storage.signedPreKey(of: master) == Sample.signedKey(5))
      for device in linked { #expect(try await store.storage.signedPreKey(of: device) == nil) }
      let ids = linked.map(\.device)
      #expect(try await store.draw(from: master.account, ids).isEmpty)
      #expect(try await store.storage.signedPreKey(of: other) == key)
      #expect(try await store.storage.accountsRevision() == revision)
      // One that brings no signed prekey leaves none.
      let bare = Sample.upload([1], identity: "third")
      #expect(try await store.storage.replacePreKeys(of: master, with: bare) == .stored)
      #expect(try await signed() == [false, false, false])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a signed prekey is stored while the identity key that signed it is the account's`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let (device, key) = (try Sample.address(1), Sample.signedKey(4))
      // Without an identity key nobody can have signed it.
      #expect(try await !store.storage.setSignedPreKey(key, of: device, identityKey: "first"))
      #expect(
        try await store.storage.replacePreKeys(of: device, with: Sample.upload([], identity: "first")) == .stored)
      #expect(try await store.storage.setSignedPreKey(key, of: device, identityKey: "first"))
      #expect(
        try await store.storage.replacePreKeys(of: device, with: Sample.upload([], identity: "second")) == .stored)
      #expect(try await !store.storage.setSignedPreKey(key, of: device, identityKey: "first"))
      #expect(try await store.storage.signedPreKey(of: device) == nil)
      #expect(try await store.storage.account(device.account)?.devices.map(\.hasSignedPreKey) == [false])
      #expect(try await store.storage.setSignedPreKey(key, of: device, identityKey: "second"))
      #expect(try await store.storage.signedPreKey(of: device) == key)
    }
  }

  @Test(arguments: Backend.allCases)
  func `if two devices bring the first identity key at once, one wins`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let number = try Sample.number(1)
      var devices: [DeviceAddress] = []
      for id in 0..<4 {
        let link = try Sample.link(1, registrationID: Int32(20 + id)).active
        guard case .linked(let device) = try await store.link(link) else { throw Sample.Missing() }
        devices.append(DeviceAddress(number, device))
      }
      let outcomes = try await withThrowingTaskGroup(of: PreKeyUploadOutcome.self) { group in
        for device in devices {
          group.addTask {
            try await store.storage.replacePreKeys(
              of: device, with: Sample.upload([1], identity: "of \(device.device)"))
          }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(outcomes.count { $0 == .stored } == 1)
      #expect(outcomes.count { $0 == .identityRefused } == 3)
      #expect(try await store.storage.account(number)?.identityKey != nil)
    }
  }
}
