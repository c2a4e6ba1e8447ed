import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// The ids under which providers know devices.
@Suite(.tags(.stores)) struct WakeIDsContract {
  @Test(arguments: Backend.allCases)
  func `a dead id is cleared only while it is the device's, and was registered before`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (google, apple, _) = try await store.registerPushed()
      func change(
        _ kind: PushIDKind, _ device: DeviceAddress, _ former: String, _ replacement: String? = nil,
        before moment: Timestamp? = nil
      ) async throws -> Bool {
        try await store.storage.changePushID(
          kind, of: device, from: Secret(former), to: replacement.map(Secret.init), registeredBefore: moment)
      }
      func stored(_ device: DeviceAddress) async throws -> Device {
        try #require(try await store.storage.account(device.account)?.device(device.device))
      }
      let later = Sample.noon.adding(.seconds(1))
      #expect(try await !change(.fcm, google, "another"))
      #expect(try await !change(.fcm, google, "fcm-1", before: Sample.noon))
      #expect(try await !change(.apns, google, "fcm-1"))
      #expect(try await change(.fcm, google, "fcm-1", "fcm-2", before: later))
      #expect(try await stored(google).pushIDs.fcm == Secret("fcm-2"))
      #expect(try await stored(google).fetchesMessages)
      let before = try await store.storage.accountsRevision()
      #expect(try await change(.fcm, google, "fcm-2"))
      #expect(try await stored(google).pushIDs.fcm == nil)
      #expect(try await !stored(google).fetchesMessages)
      // The device can be reached no more, and the directory says so.
      #expect(try await store.storage.accountsRevision() > before)
      #expect(try await store.storage.entries(for: [Sample.token(google.account)]).isEmpty)

      #expect(try await change(.voip, apple, "voip-2"))
      #expect(try await stored(apple).pushIDs.voip == nil)
      #expect(try await stored(apple).pushIDs.apns == Secret("apns-2"))
      #expect(try await change(.apns, apple, "apns-2", before: later))
      #expect(try await stored(apple).pushIDs.apns == nil)
      #expect(try await stored(apple).fetchesMessages)
      #expect(try await !change(.apns, Sample.address(77), "apns-2"))
    }
  }

  @Test(arguments: Backend.allCases)
  func `a browser is woken, reachable by its subscription alone, and cleared when that is dead`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      let browser = try Sample.address(1)
      let terms = WakeTerms(providers: [.webPush], lifetime: .seconds(3600))
      let id = Secret("https://push.example.net/x p256dh auth")
      #expect(try await store.storage.updateDevice(browser, .register(.webPush(id), at: Sample.noon)))
      // Without fetching, too.
      #expect(try await store.storage.updateDevice(browser, .fetches(false)))
      #expect(try await store.storage.account(browser.account)?.device(browser.device)?.pushIDs.webPush == id)
      #expect(try await !store.storage.entries(for: [Sample.token(browser.account)]).isEmpty)
      #expect(try await store.storage.askToWake([WakeAsk(browser)], afterForgetting: [], .both) == 0)
      #expect(try await store.storage.askToWake([WakeAsk(browser)], afterForgetting: [], terms) == 1)
      #expect(try await store.claim(.webPush).map(\.device) == [browser])
      #expect(try await store.storage.askToWakeForTest(browser, isForced: true, terms))
      _ = try await store.storage.askToWake([], afterForgetting: [WakeRelease(browser)], terms)
      #expect(try await store.storage.askToWakeForTest(browser, isForced: true, terms))
      let job = try #require(try await store.claim(.webPush).first)
      #expect(job.isTest && job.isForced)
      #expect(
        try await !store.storage.changePushID(
          .webPush, of: browser, from: Secret("another"), to: nil, registeredBefore: nil))
      #expect(try await store.storage.changePushID(.webPush, of: browser, from: id, to: nil, registeredBefore: nil))
      #expect(try await store.storage.account(browser.account)?.device(browser.device)?.pushIDs.webPush == nil)
      #expect(try await store.storage.entries(for: [Sample.token(browser.account)]).isEmpty)
      // The other ids take its place.
      #expect(try await store.storage.updateDevice(browser, .register(.webPush(id), at: Sample.noon)))
      #expect(
        try await store.storage.updateDevice(browser, .register(.fcm(Secret("fcm")), at: Sample.noon)))
      let device = try #require(try await store.storage.account(browser.account)?.device(browser.device))
      #expect(device.pushIDs.webPush == nil && device.pushIDs.provider == .fcm)
    }
  }

  @Test(arguments: Backend.allCases) func `a glance tells messages from notices`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      #expect(try await store.storage.glance(at: mailbox, countingTo: 5) == MailboxGlance(count: 0, messages: 0))
      for id in 0..<6 {
        try await store.storage.append([
          Sample.envelope(to: mailbox, from: source, id: id, type: id.isMultiple(of: 2) ? .receipt : .ciphertext)
        ])
      }
      #expect(try await store.storage.glance(at: mailbox, countingTo: 100) == MailboxGlance(count: 6, messages: 3))
      #expect(try await store.storage.glance(at: mailbox, countingTo: 3) == MailboxGlance(count: 3, messages: 1))
    }
  }

  /// A new provider does not compile without its sample.
  private static func registration(at provider: WakeProvider) -> PushRegistration {
    switch provider {
    case .fcm: .fcm(Secret("fcm"))
    case .apns: .apns(Secret("apns"), voip: Secret("voip"))
    case .webPush: .webPush(Secret("https://push.example.net/x p256dh auth"))
    }
  }

  @Test(arguments: Backend.allCases, WakeProvider.allCases)
  func `a device of each provider is listed, asked for, tested, swept, moved and forgotten`(
    _ backend: Backend, _ provider: WakeProvider
  ) async throws {
    try await backend.withStore { store in
      try await store.register(Sample.registration(1))
      let device = try Sample.address(1)
      let own = WakeTerms(providers: [provider], lifetime: .seconds(3600))
      let others = WakeTerms(providers: WakeProvider.allCases.filter { $0 != provider }, lifetime: .seconds(3600))
      func release() async throws {
        #expect(try await store.storage.askToWake([], afterForgetting: [WakeRelease(device)], own) == 0)
      }
      // By the id alone.
      let registration = Self.registration(at: provider)
      let change = DeviceChange.register(registration, fetchesMessages: false, at: Sample.noon)
      #expect(try await store.storage.updateDevice(device, change))
      let stored = try #require(try await store.storage.account(device.account)?.device(device.device))
      #expect(stored.pushIDs == registration.ids && stored.pushIDs.provider == provider && stored.isReachable)
      #expect(try await store.storage.entries(for: [Sample.token(device.account)]).count == 1)

      #expect(try await store.storage.askToWake([WakeAsk(device)], afterForgetting: [], others) == 0)
      #expect(try await store.storage.askToWake([WakeAsk(device)], afterForgetting: [], own) == 1)
      #expect(try await store.storage.waitingWake(of: device)?.provider == provider)
      try await release()
      #expect(try await !store.storage.askToWakeForTest(device, isForced: true, others))
      #expect(try await store.storage.askToWakeForTest(device, isForced: true, own))
      #expect(try await store.storage.waitingWake(of: device)?.provider == provider)
      try await release()

      try await store.storage.beginWakeSweep(pause: .zero, own)
      try await store.storage.append([Sample.envelope(to: device, from: Sample.address(99), id: 1)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, own) }
      #expect(try await store.storage.sweepWakes(stretch: 1000, reach: 1000, others).asked == 0)
      try await store.storage.append([Sample.envelope(to: device, from: Sample.address(99), id: 2)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, own) }
      #expect(try await store.sweepAll(own) == 1)
      #expect(try await store.claim(provider).map(\.device) == [device])

      // The id of another provider takes its place; ids of other providers are not forgotten with it.
      let other = try #require(WakeProvider.allCases.first { $0 != provider })
      #expect(try await store.storage.updateDevice(device, .register(Self.registration(at: other), at: Sample.noon)))
      for (forgotten, left) in [(provider, Self.registration(at: other).ids), (other, PushIDs())] {
        #expect(try await store.storage.updateDevice(device, .forget(forgotten)))
        let account = try await store.storage.account(device.account)
        #expect(account?.device(device.device)?.pushIDs == left)
      }
      #expect(try await store.storage.entries(for: [Sample.token(device.account)]).isEmpty)
    }
  }
}
