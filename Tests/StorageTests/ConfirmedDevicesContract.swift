import Foundation
import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

@Suite(.tags(.stores)) struct ConfirmedDevicesContract {
  @Test(arguments: Backend.allCases)
  func `the last word on an account's devices counts, for as long as it is asked for`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      for name in ["beta", "gamma"] { #expect(try await store.storage.savePeer(Sample.peer(name))) }
      let (account, beta) = try (Sample.number(1), Sample.relay("beta"))
      func confirmed(since: Timestamp, at relay: String = "beta") async throws -> [ConfirmedDevice]? {
        try await store.storage.confirmedDevices(of: account, at: Sample.relay(relay), since: since)
      }
      let devices = try [
        ConfirmedDevice(id: Sample.device(3), registrationID: 0),
        ConfirmedDevice(id: .master, registrationID: Int64(UInt32.max)),
      ]
      #expect(try await confirmed(since: Timestamp(millis: 0)) == nil)
      try await store.storage.confirmDevices(devices, of: account, at: beta, now: store.now)
      #expect(try await confirmed(since: store.now) == devices.reversed())
      #expect(try await confirmed(since: store.now.adding(.milliseconds(1))) == nil)
      #expect(try await confirmed(since: store.now, at: "gamma") == nil)
      // If several accounts are asked for, the confirmed ones are answered.
      let others = try [Sample.number(1), Sample.number(2)]
      #expect(
        try await store.storage.confirmedDevices(of: others, at: beta, since: store.now)
          == [account: devices.reversed()])
      // A late word of before changes nothing; a newer one replaces the list, an empty one too.
      let before = store.now.adding(.seconds(-1))
      try await store.storage.confirmDevices([], of: account, at: beta, now: before)
      #expect(try await confirmed(since: before) == devices.reversed())
      store.clock.advance(.seconds(1))
      for list in [[devices[0]], []] {
        try await store.storage.confirmDevices(list, of: account, at: beta, now: store.now)
        #expect(try await confirmed(since: store.now) == list)
      }
      // A word of a clock that was ahead is replaced by the next one.
      let ahead = store.now.adding(.seconds(40 * 86_400))
      try await store.storage.confirmDevices(devices, of: account, at: beta, now: ahead)
      try await store.storage.confirmDevices([devices[0]], of: account, at: beta, now: store.now)
      #expect(try await confirmed(since: store.now) == [devices[0]])
      #expect(try await confirmed(since: ahead) == nil)
      try await store.storage.forgetConfirmedDevices(of: account, at: beta)
      #expect(try await confirmed(since: before) == nil)
    }
  }

  @Test(arguments: Backend.allCases) func `lists that serve no more are forgotten`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      // PostgreSQL has a clock of its own.
      store.clock.set(Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)))
      #expect(try await store.storage.savePeer(Sample.peer("beta")))
      let beta = try Sample.relay("beta")
      for (index, hours) in [25, 49].enumerated() {
        try await store.storage.confirmDevices(
          [], of: Sample.number(index), at: beta, now: store.now.adding(.seconds(-3600 * hours)))
      }
      _ = try await store.storage.maintain(RetentionTerms(messages: .seconds(86_400)))
      func confirmed(_ index: Int) async throws -> [ConfirmedDevice]? {
        try await store.storage.confirmedDevices(of: Sample.number(index), at: beta, since: Timestamp(millis: 0))
      }
      #expect(try await confirmed(0) == [])
      #expect(try await confirmed(1) == nil)
    }
  }
}
