import RelayCore
import Storage
import TestSupport
import TestTags
import Testing

/// Devices that are to be woken by push, and the flight recorder.
@Suite(.tags(.stores)) struct WakeContract {
  @Test(arguments: Backend.allCases)
  func `a device waits once, however often it is asked for, and only where a provider knows it`(_ backend: Backend)
    async throws
  {
    try await backend.withStore { store in
      let (google, apple, neither) = try await store.registerPushed()
      let gone = try Sample.address(77)
      let all = [google, apple, neither, gone].map { WakeAsk($0) }
      #expect(try await store.storage.askToWake(all, afterForgetting: [], .both) == 2)
      #expect(try await store.storage.askToWake(all, afterForgetting: [], .both) == 2)
      #expect(try await store.storage.askToWake([], afterForgetting: [], .both) == 0)
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
        try await store.storage.askToWake(devices.map { WakeAsk($0) }, afterForgetting: [], .both) == 20)
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
      #expect(try await store.storage.askToWake([], afterForgetting: [WakeRelease(device)], .both) == 0)
      #expect(try await store.storage.waitingWake(of: device) == nil)
      try await store.ask(device)
      #expect(try await store.claim(.fcm).count == 1)
      // Also what is claimed is forgotten.
      #expect(
        try await store.storage.askToWake([WakeAsk(device)], afterForgetting: [WakeRelease(device)], .both) == 1)
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
      #expect(try await store.storage.askToWakeForTest(device, isForced: false, .both))
      let test = try #require(try await store.claim(.fcm).first)
      #expect(test.isTest && test.attempt == 1)
      try await store.settle(test, .drop)
      #expect(try await store.storage.waitingWake(of: device) == nil)
      #expect(try await !store.storage.askToWakeForTest(Sample.address(77), isForced: false, .both))
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

  @Test(arguments: Backend.allCases)
  func `a device that connected is forgotten only if nobody has asked since`(_ backend: Backend) async throws {
    try await backend.withStore { store in
      let device = try await store.registerAtGoogle(1)
      try await store.ask(device)
      let late = WakeRelease(device, age: .seconds(600))
      #expect(try await store.storage.askToWake([], afterForgetting: [late], .both) == 0)
      #expect(try await store.storage.waitingWake(of: device) != nil)
      #expect(try await store.storage.askToWake([], afterForgetting: [WakeRelease(device)], .both) == 0)
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
        #expect(try await store.storage.askToWakeForTest(device, isForced: false, .both))
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
                asks.map { WakeAsk($0) }, afterForgetting: gone.map { WakeRelease($0) }, .both)
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
  fileprivate func announce(_ providers: [WakeProvider]) async throws -> Set<WakeProvider> {
    Set(try await storage.announceWakeProviders(providers))
  }
}
