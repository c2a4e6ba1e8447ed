import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct DeviceChangeContract {
  @Test(arguments: Backend.allCases)
  func `a change changes what it sets, and nothing else`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let master = try Sample.address(1)
      let linked = try await store.linkActive(1)
      var expected = try #require(try await store.storage.account(master.account))
      let lock = Sample.lock(3)
      let changes: [(DeviceChange, (inout Device) -> Void, (inout Account) -> Void)] = [
        (DeviceChange(), { _ in }, { _ in }),
        (with { $0[.fcm] = .set(Secret("fcm")) }, { $0.pushIDs.fcm = Secret("fcm") }, { _ in }),
        (with { $0[.apns] = .set(Secret("apns")) }, { $0.pushIDs.apns = Secret("apns") }, { _ in }),
        (with { $0[.voip] = .set(Secret("voip")) }, { $0.pushIDs.voip = Secret("voip") }, { _ in }),
        (with { $0[.webPush] = .set(Secret("e p a")) }, { $0.pushIDs.webPush = Secret("e p a") }, { _ in }),
        (with { $0.pushRegistered = .set(Sample.noon) }, { $0.pushRegistered = Sample.noon }, { _ in }),
        (with { $0.fetchesMessages = .set(false) }, { $0.fetchesMessages = false }, { _ in }),
        (with { $0.signalingKey = .set(Secret("key")) }, { $0.signalingKey = Secret("key") }, { _ in }),
        (with { $0.registrationID = .set(-4) }, { $0.registrationID = -4 }, { _ in }),
        (with { $0.name = .set("name") }, { $0.name = "name" }, { _ in }),
        (with { $0.userAgent = .set("agent") }, { $0.userAgent = "agent" }, { _ in }),
        (with { $0.lastSeen = .set(Sample.noon) }, { $0.lastSeen = Sample.noon }, { _ in }),
        (with { $0.supportsSMS = .set(false) }, { _ in }, { $0.supportsSMS = false }),
        (with { $0.voice = .set(true) }, { _ in }, { $0.voice = true }),
        (with { $0.registrationLock = .set(lock) }, { _ in }, { $0.registrationLock = lock }),
        (with { $0.registrationLock = .set(nil) }, { _ in }, { $0.registrationLock = nil }),
        (with { $0[.fcm] = .set(nil) }, { $0.pushIDs.fcm = nil }, { _ in }),
        (with { $0[.apns] = .set(nil) }, { $0.pushIDs.apns = nil }, { _ in }),
        (with { $0[.voip] = .set(nil) }, { $0.pushIDs.voip = nil }, { _ in }),
        (with { $0[.webPush] = .set(nil) }, { $0.pushIDs.webPush = nil }, { _ in }),
        (with { $0.pushRegistered = .set(nil) }, { $0.pushRegistered = nil }, { _ in }),
        (with { $0.name = .set(nil) }, { $0.name = nil }, { _ in }),
        (with { $0.userAgent = .set(nil) }, { $0.userAgent = nil }, { _ in }),
      ]
      for (change, ofDevice, ofAccount) in changes {
        for (index, device) in [master, linked].enumerated() {
          #expect(try await store.storage.updateDevice(device, change))
          ofDevice(&expected.devices[index])
          ofAccount(&expected)
          #expect(try await store.storage.account(master.account) == expected)
        }
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `nothing is stored for a device that does not exist`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let before = try await store.storage.account(Sample.number(1))
      let revision = try await store.storage.accountsRevision()
      let change = with {
        $0.voice = .set(true)
        $0.registrationLock = .set(Sample.lock(1))
      }
      for device in try [Sample.address(1, device: 2), Sample.address(7)] {
        #expect(try await !store.storage.updateDevice(device, change))
      }
      #expect(try await store.storage.account(Sample.number(1)) == before)
      #expect(try await store.storage.account(Sample.number(7)) == nil)
      #expect(try await store.storage.accountsRevision() == revision)
    }
  }

  @Test(arguments: Backend.allCases)
  func `an account is listed exactly while device 1 can be reached`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1, isReachable: false))
      let (master, token) = try (Sample.address(1), Sample.token(Sample.number(1)))
      let linked = try await store.linkActive(1)
      let steps: [(DeviceAddress, DeviceChange, isListed: Bool)] = [
        (linked, .fetches(true), false),
        (master, .register(.fcm(Secret("fcm")), fetchesMessages: false, at: store.now), true),
        (master, .register(.apns(Secret("apns"), voip: Secret("voip")), at: store.now), true),
        (master, .fetches(false), true),
        (master, .forget(.apns), false),
        // A VoIP id alone reaches nobody.
        (master, with { $0[.voip] = .set(Secret("voip")) }, false),
        (master, .fetches(true), true),
        (linked, .fetches(false), true),
        (master, .register(.fcm(Secret("fcm")), fetchesMessages: true, at: store.now), true),
        (master, .forget(.fcm), false),
      ]
      var (wasListed, wasEverListed) = (false, false)
      for (device, change, isListed) in steps {
        let before = try await store.storage.accountsRevision()
        #expect(try await store.storage.updateDevice(device, change))
        #expect(try await store.storage.entries(for: [token]).count == (isListed ? 1 : 0))
        wasEverListed = wasEverListed || isListed
        #expect(
          try await store.storage.accounts(offset: 0, limit: 9).map(\.isInactive) == (wasEverListed ? [!isListed] : []))
        #expect(try await (store.storage.accountsRevision() > before) == (isListed != wasListed))
        let account = try await store.storage.account(master.account)
        #expect(account?.isActive(at: store.now) == isListed)
        wasListed = isListed
      }
    }
  }

  @Test(arguments: Backend.allCases) func `peers are told of what they can see, once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let master = try Sample.address(1)
      let steps: [(DeviceChange, isVisible: Bool)] = [
        (with { $0.voice = .set(true) }, true), (with { $0.voice = .set(true) }, false),
        (with { $0.supportsSMS = .set(false) }, true), (with { $0.supportsSMS = .set(false) }, false),
        (with { $0.registrationLock = .set(Sample.lock(1)) }, false), (with { $0.name = .set("new") }, false),
        (with { $0.lastSeen = .set(Sample.noon) }, false), (.fetches(true), false),
      ]
      for (change, isVisible) in steps {
        let before = try await store.storage.accountsRevision()
        #expect(try await store.storage.updateDevice(master, change))
        #expect(try await (store.storage.accountsRevision() > before) == isVisible)
      }
      let entry = try #require(try await store.storage.entries(for: [Sample.token(master.account)]).first)
      #expect(entry.voice && !entry.supportsSMS)
    }
  }

  @Test(arguments: Backend.allCases)
  func `changes at once of several devices all take effect`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(2)
      let master = try Sample.address(1)
      let linked = try await store.linkActive(1)
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for turn in 0..<20 {
          let name = with { $0.name = .set("turn \(turn)") }
          let agent = with { $0.userAgent = .set("agent") }
          for device in [master, linked] {
            group.addTask { try await store.storage.updateDevice(device, name) }
            group.addTask { try await store.storage.updateDevice(device, agent) }
          }
          group.addTask { try await store.storage.updateDevice(master, .fetches(turn.isMultiple(of: 2))) }
        }
        for try await isDone in group { #expect(isDone) }
      }
      let account = try #require(try await store.storage.account(master.account))
      #expect(account.devices.allSatisfy { $0.name?.hasPrefix("turn ") == true && $0.userAgent == "agent" })
      let isListed = try await !store.storage.entries(for: [Sample.token(master.account)]).isEmpty
      #expect(isListed == account.isActive(at: store.now))
    }
  }

  private func with(_ body: (inout DeviceChange) -> Void) -> DeviceChange {
    var change = DeviceChange()
    body(&change)
    return change
  }
}
