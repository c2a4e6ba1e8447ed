import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct LinkContract {
  @Test(arguments: Backend.allCases)
  func `a device is linked as it was given, under ids from 2 on`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let second = try await store.linkActive(1, registrationID: 21)
      let third = try await store.linkActive(1, registrationID: 31)
      #expect([second.device.value, third.device.value] == [2, 3])

      let account = try #require(try await store.storage.account(Sample.number(1)))
      #expect(account.devices.map(\.id.value) == [1, 2, 3])
      let linked = try #require(account.device(second.device))
      let given = try Sample.link(1, registrationID: 21).device
      #expect(linked.password == given.password)
      #expect(linked.signalingKey == given.signalingKey)
      #expect(linked.registrationID == 21)
      #expect(linked.name == given.name)
      #expect(linked.hasSignedPreKey)
      #expect(account.devices.first == (try Sample.registration(1).device))
      // No other account has changed.
      #expect(try await store.storage.account(Sample.number(0))?.devices.count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a code links one device, and before it expires`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let second = try Sample.device(2)
      try await store.registerAccounts(2)
      let link = try Sample.link(1)
      #expect(try await store.use(Store.code, for: link) == .codeRefused)
      try await store.expect(Store.code, for: link.account, purpose: .linking)
      // One for the other purpose, or of another account, is none.
      #expect(try await store.use(Store.code, for: Sample.registration(1)) == .codeRefused)
      #expect(try await store.use(Store.code, for: Sample.link(0)) == .codeRefused)
      #expect(try await store.use(Store.code, for: link, now: store.now.adding(.seconds(600))) == .codeRefused)
      #expect(try await store.use(Store.code, for: link) == .linked(second))
      #expect(try await store.use(Store.code, for: link) == .codeRefused)
      #expect(try await store.storage.account(link.account)?.devices.count == 2)
    }
  }

  @Test(arguments: Backend.allCases)
  func `no device is linked to an account that does not exist`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let link = try Sample.link(7)
      #expect(try await store.link(link) == .codeRefused)
      #expect(try await store.storage.account(link.account) == nil)
    }
  }

  @Test(arguments: Backend.allCases) func `wrong tries use a linking code up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let second = try Sample.device(2)
      try await store.registerAccounts(2)
      let link = try Sample.link(1)
      try await store.expect(Store.code, for: link.account, purpose: .linking)
      for _ in 0..<3 { #expect(try await store.use(Secret("654321"), triesMax: 3, for: link) == .codeRefused) }
      #expect(try await store.use(Store.code, triesMax: 3, for: link) == .codeRefused)

      try await store.expect(Store.code, for: link.account, purpose: .linking)
      for _ in 0..<2 { #expect(try await store.use(Secret("654321"), triesMax: 3, for: link) == .codeRefused) }
      #expect(try await store.use(Store.code, triesMax: 3, for: link) == .linked(second))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a full account takes no device, and the code stays`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let second = try await store.linkActive(1)
      _ = try await store.linkActive(1)
      let link = try Sample.link(1, devicesMax: 3)
      try await store.expect(Store.code, for: link.account, purpose: .linking)
      for _ in 0..<6 { #expect(try await store.use(Store.code, for: link) == .tooManyDevices(current: 3)) }
      #expect(try await store.storage.account(link.account)?.devices.count == 3)

      // One that is inactive counts no more, and gives its id.
      var gone = DeviceChange()
      gone.lastSeen = .set(Timestamp(millis: store.now.millis - 31 * Timestamp.millisPerDay))
      #expect(try await store.storage.updateDevice(second, gone))
      #expect(try await store.use(Store.code, for: link) == .linked(second.device))
    }
  }

  @Test(arguments: Backend.allCases)
  func `the lowest id of an inactive device is used again, and nothing of that device is left`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let source = try Sample.address(2)
      let (second, third) = (try await store.linkActive(1), try await store.linkActive(1))
      for device in [second, third] {
        let upload = Sample.upload([1, 2], signed: Sample.signedKey(1))
        #expect(try await store.storage.replacePreKeys(of: device, with: upload) == .stored)
        try await store.storage.append([1, 2].map { Sample.envelope(to: device, from: source, id: $0) })
        _ = try await store.storage.acknowledge(
          source: source.account, timestamp: Sample.envelope(to: device, from: source, id: 1).timestamp, in: device)
      }
      var unreachable = DeviceChange()
      unreachable.fetchesMessages = .set(false)
      for device in [second, third] { #expect(try await store.storage.updateDevice(device, unreachable)) }

      #expect(try await store.link(Sample.link(1, registrationID: 77)) == .linked(second.device))
      #expect(try await store.storage.account(second.account)?.device(second.device)?.hasSignedPreKey == false)
      #expect(try await store.storage.preKeyCount(of: second) == 0)
      #expect(try await store.storage.signedPreKey(of: second) == nil)
      #expect(try await store.draw(from: second.account, [second.device]).isEmpty)
      #expect(try await store.mailbox(second).isEmpty)
      // The mailbox remembers nothing either: what the former device had acknowledged is new to this one.
      try await store.storage.append([Sample.envelope(to: second, from: source, id: 1)])
      #expect(try await store.mailbox(second).count == 1)
      // The other inactive device is as it was.
      #expect(try await store.storage.preKeyCount(of: third) == 2)
      #expect(try await store.mailbox(third).count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `device 1 is never replaced, however inactive`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let second = try Sample.device(2)
      try await store.register(Sample.registration(1, isReachable: false))
      #expect(try await store.link(Sample.link(1)) == .linked(second))
      #expect(
        try await store.storage.account(Sample.number(1))?.devices.first
          == Sample.registration(1, isReachable: false).device)
    }
  }

  @Test(arguments: Backend.allCases)
  func `64 callers with one right code link one device`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let second = try Sample.device(2)
      try await store.registerAccounts(2)
      try await store.expect(Store.code, for: Sample.number(1), purpose: .linking)
      let outcomes = try await withThrowingTaskGroup(of: LinkOutcome.self) { group in
        for caller in 0..<64 {
          group.addTask { try await store.use(Store.code, for: Sample.link(1, registrationID: Int32(caller))) }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(outcomes.count { $0 == .linked(second) } == 1)
      #expect(outcomes.count { $0 == .codeRefused } == 63)
      #expect(try await store.storage.account(Sample.number(1))?.devices.count == 2)
    }
  }

  @Test(arguments: Backend.allCases)
  func `links at once give out different ids, and no more than the limit`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let ids = try await withThrowingTaskGroup(of: [DeviceID].self) { group in
        for caller in 0..<8 {
          group.addTask {
            var mine: [DeviceID] = []
            for turn in 0..<4 {
              // With a signed prekey from the start each is active at once, and its id taken.
              let link = try Sample.link(1, registrationID: Int32(10 * caller + turn), devicesMax: 10).active
              if case .linked(let id) = try await store.link(link) { mine.append(id) }
            }
            return mine
          }
        }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      // Codes of one account displace each other: how many links there are is chance.
      #expect(!ids.isEmpty && ids.count < 10)
      #expect(ids.map(\.value).sorted() == Array(2..<Int32(ids.count + 2)))
      #expect(try await store.storage.account(Sample.number(1))?.devices.count == ids.count + 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a registration ends a pending linking code`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      try await store.expect(Store.code, for: Sample.number(1), purpose: .linking)
      try await store.register(Sample.registration(1, registrationID: 8))
      #expect(try await store.use(Store.code, for: Sample.link(1)) == .codeRefused)
    }
  }
}

@Suite(.tags(.stores)) struct RemovalContract {
  @Test(arguments: Backend.allCases)
  func `a removed device takes its prekeys and its mailbox with it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let (removed, other, source) = (
        try await store.linkActive(1), try await store.linkActive(1), try Sample.address(2)
      )
      for device in [removed, other] {
        #expect(try await store.storage.replacePreKeys(of: device, with: Sample.upload([1])) == .stored)
        try await store.storage.append([Sample.envelope(to: device, from: source, id: 1)])
      }
      let revision = try await store.storage.accountsRevision()
      #expect(try await store.storage.removeDevice(removed))
      #expect(try await !store.storage.removeDevice(removed))

      #expect(try await store.storage.account(removed.account)?.devices.map(\.id) == [.master, other.device])
      #expect(try await store.storage.preKeyCount(of: removed) == 0)
      #expect(try await store.storage.signedPreKey(of: removed) == nil)
      #expect(try await store.draw(from: removed.account, [removed.device]).isEmpty)
      #expect(try await store.mailbox(removed).isEmpty)
      #expect(try await store.storage.preKeyCount(of: other) == 1)
      #expect(try await store.mailbox(other).count == 1)
      // Peers are told of accounts, not of devices.
      #expect(try await store.storage.accountsRevision() == revision)
      for key in [1, 2] as [Int64] {
        #expect(try await !store.storage.setSignedPreKey(Sample.signedKey(key), of: removed, identityKey: "identity"))
      }
      #expect(try await store.storage.replacePreKeys(of: removed, with: Sample.upload([1])) == .noDevice)
      #expect(try await !store.storage.updateDevice(removed, .fetches(true)))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a message on its way to a removed device does not reach the next one`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let removed = try await store.linkActive(1)
      #expect(try await store.storage.removeDevice(removed))
      try await store.storage.append([Sample.envelope(to: removed, from: Sample.address(2), id: 1)])
      #expect(try await store.linkActive(1) == removed)
      #expect(try await store.mailbox(removed).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `device 1 stays, and so does what does not exist`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      #expect(try await !store.storage.removeDevice(Sample.address(1)))
      #expect(try await !store.storage.removeDevice(Sample.address(1, device: 2)))
      #expect(try await !store.storage.removeDevice(Sample.address(7, device: 2)))
      #expect(try await store.storage.account(Sample.number(1))?.devices.count == 1)
    }
  }
}

extension Store {
  /// Links with a code as it is typed.
  fileprivate func use(
    _ code: Secret, triesMax: Int = 5, for link: DeviceLink, now: Timestamp? = nil
  ) async throws -> LinkOutcome {
    try await storage.linkDevice(link, code: code, triesMax: triesMax, now: now ?? self.now)
  }
}

extension DeviceLink {
  /// With a device that is active as soon as it is linked.
  var active: DeviceLink {
    var device = device
    device.hasSignedPreKey = true
    return DeviceLink(account: account, device: device, devicesMax: devicesMax)
  }
}
