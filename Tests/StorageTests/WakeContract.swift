import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Devices that are to be woken by push, and the flight recorder.
@Suite(.tags(.stores)) struct WakeContract {
  private static let both = WakeTerms(providers: [.fcm, .apns], lifetime: .seconds(3600))

  @Test(arguments: Backend.allCases)
  func `a device waits once, however often it is asked for, and only where a provider knows it`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let (google, apple, neither) = try await store.registerPushed()
      let gone = try Sample.address(77)
      let all = [google, apple, neither, gone].map { WakeAsk($0) }
      #expect(try await store.storage.askToWake(all, afterForgetting: [], Self.both) == 2)
      #expect(try await store.storage.askToWake(all, afterForgetting: [], Self.both) == 2)
      #expect(try await store.storage.askToWake([], afterForgetting: [], Self.both) == 0)
      let queue = try await store.storage.wakeQueue()
      #expect(queue.map(\.provider) == [.fcm, .apns] && queue.map(\.count) == [1, 1])
      let waiting = try await store.storage.waitingWake(of: apple)
      #expect(waiting?.provider == .apns && waiting?.isClaimed == false && waiting?.isTest == false)
      #expect(try await store.storage.waitingWake(of: neither) == nil)

      let job = try #require(try await store.claim(.fcm).first)
      #expect(job.device == google && job.version == 2 && job.attempt == 1)
      #expect(!job.isExpired && !job.followsCall && !job.isTest)
      #expect(try await store.claim(.fcm).isEmpty)
      #expect(try await store.claim(.apns).map(\.device) == [apple])
      // No device is asked for whose provider is not configured.
      let googleAlone = WakeTerms(providers: [.fcm], lifetime: .seconds(3600))
      let other = try await store.registerPushed(from: 10).apple
      #expect(try await store.storage.askToWake([WakeAsk(other)], afterForgetting: [], googleAlone) == 0)
    }
  }

  @Test(arguments: Backend.withClock)
  func `the processes that send through a provider are known to all, for a day`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let nobody = try await store.announce([])
      #expect(nobody.isEmpty)
      #expect(try await store.announce([.apns]) == [.apns])
      store.clock.advance(.seconds(80_000))
      #expect(try await store.announce([.webPush]) == [.apns, .webPush])
      store.clock.advance(.seconds(80_000))
      #expect(try await store.announce([]) == [.webPush])
    }
  }

  @Test(arguments: Backend.allCases) func `announcements of several processes add up`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let nobody = try await store.announce([])
      #expect(nobody.isEmpty)
      #expect(try await store.announce([.fcm, .apns]) == [.fcm, .apns])
      #expect(try await store.announce([.apns, .webPush]) == [.fcm, .apns, .webPush])
      #expect(try await store.announce([]) == [.fcm, .apns, .webPush])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a job that was claimed without an answer is due again once it is returned`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      let other = try await store.registerAtGoogle(2)
      try await store.ask(device)
      let claimed = try await store.storage.claimWakes(of: .fcm, claim: 7, limit: 10, for: .seconds(600))
      #expect(claimed.map(\.device) == [device])
      try await store.ask(other)
      let kept = try await store.claim(.fcm)
      #expect(kept.map(\.device) == [other])

      try await store.storage.returnWakes(claim: 7)
      #expect(try await store.storage.waitingWake(of: device)?.isClaimed == false)
      let again = try #require(try await store.claim(.fcm).first)
      #expect(again.device == device && again.attempt == 1)
      // The former claim settles nothing any more, and jobs of other claims stay theirs.
      try await store.storage.returnWakes(claim: 7)
      #expect(try await store.claim(.fcm).isEmpty)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a renewed claim is nobody else's meanwhile, and one that is not renewed ends`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (held, other) = (try await store.registerAtGoogle(1), try await store.registerAtGoogle(2))
      try await store.ask(held)
      let job = try #require(try await store.claim(.fcm, for: .seconds(600)).first)
      let first = try #require(try await store.storage.waitingWake(of: held)).due
      try await store.storage.renewWakes([job], for: .seconds(1200))
      let second = try #require(try await store.storage.waitingWake(of: held)).due
      #expect(second > first.adding(.seconds(300)))

      // A process that has lost a claim renews nothing.
      try await store.ask(other)
      let lost = try #require(try await store.claim(.fcm, for: .zero).first)
      #expect(lost.device == other)
      let won = try #require(try await store.claim(.fcm, for: .seconds(600)).first)
      #expect(won.device == other && won.claim != lost.claim)
      let due = try #require(try await store.storage.waitingWake(of: other)).due
      try await store.storage.renewWakes([lost, job], for: .seconds(3600))
      #expect(try await store.storage.waitingWake(of: other)?.due == due)
      #expect(try #require(try await store.storage.waitingWake(of: held)).due > second)
      try await store.storage.renewWakes([], for: .seconds(1))
    }
  }

  @Test(arguments: Backend.allCases) func `if many claim at once, each job is one's`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      var devices: Set<DeviceAddress> = []
      for index in 1...20 { devices.insert(try await store.registerAtGoogle(index)) }
      #expect(
        try await store.storage.askToWake(devices.map { WakeAsk($0) }, afterForgetting: [], Self.both) == 20)
      let claimed = try await withThrowingTaskGroup(of: [DeviceAddress].self) { group in
        for _ in 0..<8 { group.addTask { try await store.claim(.fcm, limit: 6).map(\.device) } }
        return try await group.reduce(into: []) { $0 += $1 }
      }
      let rest = try await store.claim(.fcm, limit: 100).map(\.device)
      #expect(claimed.count + rest.count == 20)
      #expect(Set(claimed + rest) == devices)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a claim ends by itself, and its holder's later word counts for nothing`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      let first = try #require(try await store.claim(.fcm, for: .milliseconds(100)).first)
      let second = try #require(try await store.nextClaim(.fcm))
      #expect(second.attempt == 2 && second.claim != first.claim && second.version == first.version)
      try await store.settle(first, .drop)
      #expect(try await store.storage.waitingWake(of: device)?.isClaimed == true)
      try await store.settle(second, .drop)
      #expect(try await store.storage.waitingWake(of: device) == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a device that is asked for during its wake-up is woken again, after its rest`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      let first = try #require(try await store.claim(.fcm).first)
      try await store.ask(device)
      try await store.settle(first, .drop)
      let second = try #require(try await store.claim(.fcm).first)
      #expect(second.version == first.version + 1 && second.attempt == 1)
      try await store.ask(device)
      try await store.settle(second, .rest(pause: .milliseconds(300), memory: .seconds(3600)))
      let third = try #require(try await store.nextClaim(.fcm))
      #expect(third.claimed.millis - second.claimed.millis >= 300)
      #expect(third.attempt == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a woken device rests: it waits for nothing, and its next wake-up waits`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      let first = try #require(try await store.claim(.fcm).first)
      try await store.settle(first, .rest(pause: .seconds(3600), memory: .seconds(7200)))
      #expect(try await store.storage.waitingWake(of: device) == nil)
      #expect(try await store.storage.wakeQueue().isEmpty)
      try await store.ask(device)
      let waiting = try #require(try await store.storage.waitingWake(of: device))
      #expect(waiting.due.millis - first.claimed.millis >= 3_600_000)
      #expect(try await store.claim(.fcm).isEmpty)
      // A device that connects is awake: the next message wakes at once.
      #expect(try await store.storage.askToWake([], afterForgetting: [WakeRelease(device)], Self.both) == 0)
      #expect(try await store.storage.waitingWake(of: device) == nil)
      try await store.ask(device)
      #expect(try await store.claim(.fcm).count == 1)
      // Also what is claimed is forgotten.
      #expect(
        try await store.storage.askToWake([WakeAsk(device)], afterForgetting: [WakeRelease(device)], Self.both) == 1)
      #expect(try await store.claim(.fcm).map(\.version) == [1])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a delay holds until somebody asks without one`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device, after: .seconds(3600))
      #expect(try await store.claim(.fcm).isEmpty)
      try await store.ask(device)
      #expect(try await store.claim(.fcm).count == 1)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a job that was put off counts its attempts, and only a test hurries it`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      try await store.settle(try #require(try await store.claim(.fcm).first), .putOff(.milliseconds(50)))
      let second = try #require(try await store.nextClaim(.fcm))
      #expect(second.attempt == 2)
      try await store.settle(second, .putOff(.seconds(3600)))
      try await store.ask(device)
      #expect(try await store.claim(.fcm).isEmpty)
      #expect(try await store.storage.askToWakeForTest(device, isForced: false, Self.both))
      let test = try #require(try await store.claim(.fcm).first)
      #expect(test.isTest && test.attempt == 1)
      try await store.settle(test, .drop)
      #expect(try await store.storage.waitingWake(of: device) == nil)
      #expect(try await !store.storage.askToWakeForTest(Sample.address(77), isForced: false, Self.both))
    }
  }

  @Test(arguments: Backend.allCases) func `an ordinary push follows a VoIP push`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerPushed().apple
      try await store.ask(device)
      let first = try #require(try await store.claim(.apns).first)
      try await store.settle(first, .follow(after: .milliseconds(200)))
      try await store.ask(device)
      let second = try #require(try await store.nextClaim(.apns))
      #expect(second.followsCall && second.claimed.millis - first.claimed.millis >= 200)
      try await store.settle(second, .rest(pause: .zero, memory: .seconds(60)))
      try await store.ask(device)
      #expect(try await store.claim(.apns).map(\.followsCall) == [false])
    }
  }

  @Test(arguments: Backend.allCases)
  func `a job says when it is too old, and is still given out`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      let brief = WakeTerms(providers: [.fcm], lifetime: .zero)
      #expect(try await store.storage.askToWake([WakeAsk(device)], afterForgetting: [], brief) == 1)
      #expect(try await store.claim(.fcm).map(\.isExpired) == [true])
    }
  }

  // MARK: The flight recorder

  @Test(arguments: Backend.allCases)
  func `the newest attempts of each device are kept, as they were`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (google, apple, _) = try await store.registerPushed()
      for device in [google, apple] { try await store.ask(device) }
      let jobs = try await [store.claim(.fcm), store.claim(.apns)].flatMap { $0 }
      func attempt(_ number: Int) -> WakeAttempt {
        WakeAttempt(
          asked: Timestamp(millis: store.now.millis), claimed: Timestamp(millis: store.now.millis + Int64(number)),
          number: number, provider: number.isMultiple(of: 2) ? .fcm : nil, kind: WakeAttempt.Kind.allCases[number % 3],
          answer: number.isMultiple(of: 3) ? nil : "word-\(number)",
          status: number.isMultiple(of: 5) ? nil : 200 + number,
          latency: number.isMultiple(of: 7) ? nil : .milliseconds(number),
          outcome: WakeAttempt.Outcome.allCases[number % WakeAttempt.Outcome.allCases.count],
          isTest: number.isMultiple(of: 4))
      }
      #expect(try await store.storage.wakeHistory(of: google).isEmpty)
      for number in 1...20 {
        try await store.storage.settleWakes(
          jobs.filter { $0.device == google || number <= 3 }.map {
            WakeSettlement($0, .putOff(.seconds(60)), attempt: attempt(number))
          })
      }
      #expect(try await store.storage.wakeHistory(of: google) == (5...20).reversed().map(attempt))
      #expect(try await store.storage.wakeHistory(of: apple) == (1...3).reversed().map(attempt))
      try await store.storage.settleWakes([])
      // With the device its history goes, and a new installation begins without.
      try await store.register(Sample.registration(1))
      #expect(try await store.storage.wakeHistory(of: google).isEmpty)
      #expect(try await store.storage.waitingWake(of: google) == nil)
      #expect(try await store.storage.wakeHistory(of: apple).count == 3)
    }
  }

  // MARK: Push ids

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
      #expect(try await store.storage.askToWake([WakeAsk(browser)], afterForgetting: [], Self.both) == 0)
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

  // MARK: The sweep

  @Test(arguments: Backend.allCases)
  func `the sweep finds each device with a forgotten waiting message, once`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (google, apple, neither) = try await store.registerPushed()
      let source = try Sample.address(99)
      func sweep() async throws -> Int { try await store.sweepAll(Self.both) }
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      #expect(try await sweep() == 0)
      for (id, mailbox) in [google, google, apple, neither].enumerated() {
        try await store.storage.append([Sample.envelope(to: mailbox, from: source, id: id)])
      }
      // Apple's was asked for in time.
      try await store.ask(apple)
      // New messages are left to the processes that have just stored them.
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      #expect(try await sweep() == 0)
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      #expect(try await sweep() == 1)
      #expect(try await store.storage.waitingWake(of: google) != nil)
      // Nothing is looked at twice.
      #expect(
        try await store.storage.askToWake([], afterForgetting: [google, apple].map { WakeRelease($0) }, Self.both) == 0)
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      #expect(try await sweep() == 0)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the sweep leaves devices alone that were just woken, and forgets them in time`(_ backend: Backend) async throws
  {
    try await backend.withStore { store in
      let (device, forgotten) = (try await store.registerAtGoogle(1), try await store.registerAtGoogle(2))
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      for mailbox in [device, forgotten] {
        try await store.storage.append([Sample.envelope(to: mailbox, from: Sample.address(99), id: 1)])
        try await store.ask(mailbox)
      }
      for job in try await store.claim(.fcm) {
        let memory = job.device == device ? Duration.seconds(3600) : .zero
        try await store.settle(job, .rest(pause: .zero, memory: memory))
      }
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, Self.both) }
      #expect(try await store.sweepAll(Self.both) == 1)
      #expect(try await store.storage.waitingWake(of: device) == nil)
      #expect(try await store.storage.waitingWake(of: forgotten) != nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `the sweep asks again for messages that came since the device was last woken`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      let source = try Sample.address(99)
      try await store.storage.beginWakeSweep(pause: .zero, Self.both)
      try await store.storage.append([Sample.envelope(to: device, from: source, id: 1)])
      try await store.ask(device)
      let first = try #require(try await store.claim(.fcm).first)
      try await store.settle(first, .rest(pause: .milliseconds(50), memory: .seconds(3600)))
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, Self.both) }
      #expect(try await store.sweepAll(Self.both) == 0)
      // The process that stored this one told nobody.
      try await store.storage.append([Sample.envelope(to: device, from: source, id: 2)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, Self.both) }
      #expect(try await store.sweepAll(Self.both) == 1)
      let second = try #require(try await store.nextClaim(.fcm))
      #expect(second.version == first.version + 1)
      // Also while it is just being woken.
      try await store.storage.append([Sample.envelope(to: device, from: source, id: 3)])
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, Self.both) }
      #expect(try await store.sweepAll(Self.both) == 1)
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
      for _ in 0..<2 { try await store.storage.beginWakeSweep(pause: .zero, Self.both) }
      #expect(try await store.sweepAll(Self.both) == 0)
      let began = try await store.storage.lastWakeSweep()
      // A time that has passed, and nothing by a sweep that does not begin.
      try await store.storage.beginWakeSweep(pause: .seconds(3600), Self.both)
      #expect(try await store.storage.lastWakeSweep() == began)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a device that connected is forgotten only if nobody has asked since`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      let late = WakeRelease(device, age: .seconds(600))
      #expect(try await store.storage.askToWake([], afterForgetting: [late], Self.both) == 0)
      #expect(try await store.storage.waitingWake(of: device) != nil)
      #expect(try await store.storage.askToWake([], afterForgetting: [WakeRelease(device)], Self.both) == 0)
      #expect(try await store.storage.waitingWake(of: device) == nil)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a job that is postponed is due at once when it is asked for`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      let first = try #require(try await store.claim(.fcm).first)
      try await store.settle(first, .lookAgain(after: .seconds(3600)))
      #expect(try await store.claim(.fcm).isEmpty)
      try await store.ask(device)
      let second = try #require(try await store.claim(.fcm).first)
      #expect(second.attempt == 2)
      // A job that was no attempt does not count as one.
      try await store.settle(second, .putOff(.zero, counts: false))
      #expect(try await store.nextClaim(.fcm)?.attempt == 2)
    }
  }

  @Test(arguments: Backend.allCases)
  func `a test is not worth sending for long, but for a device that waits for more`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let (idle, waiting) = (try await store.registerAtGoogle(1), try await store.registerAtGoogle(2))
      try await store.ask(waiting)
      for device in [idle, waiting] {
        #expect(try await store.storage.askToWakeForTest(device, isForced: false, Self.both))
      }
      for job in try await store.claim(.fcm) {
        let millis = job.expires.millis - job.requested.millis
        #expect(job.device == idle ? millis == 120_000 : millis > 3_000_000)
      }
    }
  }

  @Test(arguments: Backend.allCases)
  func `many that ask, forget and remove at once never deadlock`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      var devices: [DeviceAddress] = []
      for index in 1...20 { devices.append(try await store.registerAtGoogle(index)) }
      let all = devices
      try await withThrowingTaskGroup(of: Void.self) { group in
        for place in 0..<8 {
          group.addTask {
            for _ in 0..<20 {
              let order = all.shuffled()
              let (asks, gone) = (order.prefix(12), order.suffix(12))
              _ = try await store.storage.askToWake(
                asks.map { WakeAsk($0) }, afterForgetting: gone.map { WakeRelease($0) }, Self.both)
              if place == 0 { try await store.register(Sample.registration(1)) }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }
}

extension Store {
  /// A device with an FCM id, `fcm-INDEX`.
  func registerAtGoogle(_ index: Int) async throws -> DeviceAddress {
    try await register(Sample.registration(index))
    let device = try Sample.address(index)
    let id = DeviceChange.register(.fcm(Secret("fcm-\(index)")), at: Sample.noon)
    #expect(try await storage.updateDevice(device, id))
    return device
  }

  /// Devices of accounts `index`, `index + 1` and `index + 2`: one with an FCM id, one with APNs ids, one with neither.
  func registerPushed(from index: Int = 1) async throws -> (
    google: DeviceAddress, apple: DeviceAddress, neither: DeviceAddress
  ) {
    let google = try await registerAtGoogle(index)
    try await register(Sample.registration(index + 1))
    let apple = try Sample.address(index + 1)
    let ids = DeviceChange.register(
      .apns(Secret("apns-\(index + 1)"), voip: Secret("voip-\(index + 1)")), at: Sample.noon)
    #expect(try await storage.updateDevice(apple, ids))
    try await register(Sample.registration(index + 2))
    return (google, apple, try Sample.address(index + 2))
  }

  func ask(_ device: DeviceAddress, after delay: Duration = .zero) async throws {
    let terms = WakeTerms(providers: [.fcm, .apns], lifetime: .seconds(3600))
    #expect(try await storage.askToWake([WakeAsk(device, after: delay)], afterForgetting: [], terms) == 1)
  }

  func claim(_ provider: WakeProvider, limit: Int = 10, for duration: Duration = .seconds(600)) async throws
    -> [WakeJob]
  {
    try await storage.claimWakes(of: provider, claim: .random(in: .min ... .max), limit: limit, for: duration)
  }

  /// Looks at all that is ready, in small steps. - Returns: how many devices were asked for.
  func sweepAll(_ terms: WakeTerms) async throws -> Int {
    var asked = 0
    while true {
      let step = try await storage.sweepWakes(stretch: 2, reach: 1000, terms)
      asked += step.asked
      if step.isDone { return asked }
    }
  }

  /// The next job that becomes due.
  func nextClaim(_ provider: WakeProvider) async throws -> WakeJob? {
    try await eventually("a job is due") {
      // By PostgreSQL's clock time goes by itself.
      clock.advance(.milliseconds(10))
      return try await claim(provider).first
    } as WakeJob
  }

  func settle(_ job: WakeJob, _ disposal: WakeDisposal) async throws {
    try await storage.settleWakes([WakeSettlement(job, disposal, attempt: nil)])
  }
}

extension Store {
  fileprivate func announce(_ providers: [WakeProvider]) async throws -> Set<WakeProvider> {
    Set(try await storage.announceWakeProviders(providers))
  }
}
