import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Devices that a wake-up was forgotten for.
@Suite(.tags(.stores)) struct WakeSweepContract {
  @Test(arguments: Backend.allCases)
  func `the sweep finds each device with a forgotten waiting message, once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (google, apple, neither) = try await store.registerPushed()
      let source = try Sample.address(99)
      func sweep() async throws -> Int { try await store.sweepAll(.both) }
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      #expect(try await sweep() == 0)
      for (id, mailbox) in [google, google, apple, neither].enumerated() {
        try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)])
      }
      // Apple's was asked for in time.
      try await store.ask(apple)
      // New messages are left to the processes that have just stored them.
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      #expect(try await sweep() == 0)
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      #expect(try await sweep() == 1)
      #expect(try await store.storage.waitingWake(of: google) != nil)
      // Nothing is looked at twice.
      #expect(
        try await store.storage.askToWake([], afterForgetting: [google, apple].map { WakeRelease($0) }, .both) == 0)
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      #expect(try await sweep() == 0)
    }
  }

  /// A device that was pushed, and one whose push was put off, while the clock was a day ahead.
  @Test func `a clock that was ahead keeps no device from being woken`() async throws {
    let day = Duration.seconds(86_400)
    try await Backend.embedded.withStore { store in
      let devices = [try await store.registerAtGoogle(1), try await store.registerAtGoogle(2)]
      store.clock.advance(day)
      try await store.putOff(devices)
      store.clock.advance(.zero - day)
      try await store.expectFree(devices)
    }
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let devices = [try await store.registerAtGoogle(1), try await store.registerAtGoogle(2)]
      try await store.putOff(devices)
      try server.sql(Store.dayAhead, in: url)
      try await store.expectFree(devices)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the sweep leaves devices alone that were just woken, and forgets them in time`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (device, forgotten) = (try await store.registerAtGoogle(1), try await store.registerAtGoogle(2))
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      for mailbox in [device, forgotten] {
        try await store.storage.append([Sample.envelope(to: mailbox, from: Sample.address(99), id: 1)])
        try await store.ask(mailbox)
      }
      for job in try await store.claim(.fcm) {
        let memory = job.device == device ? Duration.seconds(3600) : .zero
        try await store.settle(job, .rest(pause: .zero, memory: memory))
      }
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, .both) }
      #expect(try await store.sweepAll(.both) == 1)
      #expect(try await store.storage.waitingWake(of: device) == nil)
      #expect(try await store.storage.waitingWake(of: forgotten) != nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the sweep asks again for messages that came since the device was last woken`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      let source = try Sample.address(99)
      try await store.storage.beginWakeSweep(pause: .zero, .both)
      try await store.storage.append([Sample.envelope(to: device, from: source, id: 1)])
      try await store.ask(device)
      let first = try #require(try await store.claim(.fcm).first)
      try await store.settle(first, .rest(pause: .milliseconds(50), memory: .seconds(3600)))
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, .both) }
      #expect(try await store.sweepAll(.both) == 0)
      // The process that stored this one told nobody.
      try await store.storage.append([Sample.envelope(to: device, from: source, id: 2)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, .both) }
      #expect(try await store.sweepAll(.both) == 1)
      let second = try #require(try await store.nextClaim(.fcm))
      #expect(second.version == first.version + 1)
      // Also while it is just being woken.
      try await store.storage.append([Sample.envelope(to: device, from: source, id: 3)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, .both) }
      #expect(try await store.sweepAll(.both) == 1)
      try await store.settle(second, .drop)
      #expect(try await store.nextClaim(.fcm)?.version == second.version + 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `if nobody swept for longer than a wake-up lives, no device is asked for`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      // The first sweep ever.
      try await store.storage.append([Sample.envelope(to: device, from: Sample.address(99), id: 1)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, .both) }
      #expect(try await store.sweepAll(.both) == 0)
      let began = try await store.storage.lastWakeSweep()
      // A time that has passed, and nothing by a sweep that does not begin.
      try await store.storage.beginWakeSweep(pause: .seconds(3600), .both)
      #expect(try await store.storage.lastWakeSweep() == began)
    }
  }

}
