import RelayCore
import Storage
import TestTags
import Testing

/// Statements for the accounts and devices of many connections at once.
@Suite(.tags(.stores)) struct ManyAccountsContract {
  @Test(arguments: Backend.allCases)
  func `many accounts are read as each by itself, and those that do not exist are left out`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      try await store.registerAccounts(41)
      for index in [3, 7] { _ = try await store.linkActive(index) }
      _ = try await store.linkActive(7)
      var change = DeviceChange()
      change.registrationLock = .set(Sample.lock(3))
      #expect(try await store.storage.updateDevice(Sample.address(5), change))

      let asked = try [40, 7, 3, 99, 1, 5, 7].map { try Sample.number($0) }
      let found = try await store.storage.accounts(asked)
      #expect(found.count == 5)
      for number in Set(asked) {
        #expect(try await store.storage.account(number) == found.first { $0.number == number })
      }
      #expect(found.first { $0.number == asked[1] }?.devices.map(\.id.value) == [1, 2, 3])
      #expect(try await store.storage.accounts([]).isEmpty)
      #expect(try await store.storage.accounts([Sample.number(98)]).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a day is noted for many devices, and changes nothing else of them`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(4)
      let linked = try await store.linkActive(2)
      let today = Sample.noon.startOfDay
      let tomorrow = Timestamp(millis: today.millis + Timestamp.millisPerDay)
      let devices = try [Sample.address(1), Sample.address(2), linked]
      let revision = try await store.storage.accountsRevision()
      var expected = try await store.storage.account(Sample.number(2))

      let noted = try await store.storage.noteSeen(devices, on: tomorrow)
      #expect(Set(noted) == Set(devices) && noted.count == devices.count)
      expected?.devices[0].lastSeen = tomorrow
      expected?.devices[1].lastSeen = tomorrow
      #expect(try await store.storage.account(Sample.number(2)) == expected)
      // One that nobody named is as it was, and peers see nothing of it.
      #expect(try await store.storage.account(Sample.number(3))?.devices.first?.lastSeen == today)
      #expect(try await store.storage.accountsRevision() == revision)
      #expect(try await store.storage.noteSeen([], on: tomorrow).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `no day goes back, and a device that is gone is passed over`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(3)
      let today = Sample.noon.startOfDay
      let tomorrow = Timestamp(millis: today.millis + Timestamp.millisPerDay)
      let (one, two) = (try Sample.address(1), try Sample.address(2))
      #expect(try await store.storage.noteSeen([one], on: tomorrow) == [one])

      let gone = try [Sample.address(1, device: 2), Sample.address(9)]
      #expect(try await store.storage.noteSeen([one] + gone, on: today).isEmpty)
      #expect(try await store.storage.noteSeen([one, two, two] + gone, on: tomorrow) == [two])
      for device in [one, two] {
        #expect(try await store.storage.account(device.account)?.devices.map(\.lastSeen) == [tomorrow])
      }
    }
  }

  /// Two processes with the same devices in another order: where one waited for the other, PostgreSQL would end one.
  @Test(arguments: Backend.allCases)
  func `many that note the same devices at once hold nobody up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      try await store.registerAccounts(51)
      let devices = try (1...50).map { try Sample.address($0) }
      let day = { @Sendable (number: Int64) in
        Timestamp(millis: Sample.noon.startOfDay.millis + number * Timestamp.millisPerDay)
      }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for caller in 0..<8 {
          group.addTask {
            for turn in 1...10 {
              _ = try await store.storage.noteSeen(devices.shuffled(), on: day(Int64(turn)))
              let device = devices[(caller * 10 + turn) % devices.count]
              #expect(try await store.storage.updateDevice(device, .fetches(turn.isMultiple(of: 2))))
            }
          }
        }
        try await group.waitForAll()
      }
      _ = try await store.storage.noteSeen(devices, on: day(11))
      for account in try await store.storage.accounts(devices.map(\.account)) {
        #expect(account.devices.map(\.lastSeen) == [day(11)])
      }
    }
  }
}
