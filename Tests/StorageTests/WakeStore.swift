import RelayCore
import Storage
import TestSupport
import Testing

extension WakeTerms {
  static let both = WakeTerms(providers: [.fcm, .apns], lifetime: .seconds(3600))
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

  /// Makes rows look as a clock that was a day ahead would have left them.
  static let dayAhead = """
    UPDATE wakes SET newest = newest + 86400000, not_before = not_before + 86400000, due = due + 86400000;
    UPDATE wake_sweeps SET began = began + 86400000;
    """

  /// Wakes one of two devices, and leaves the push of the other one under way.
  func putOff(_ devices: [DeviceAddress]) async throws {
    for device in devices { try await ask(device) }
    let jobs = try await claim(.fcm)
    #expect(jobs.count == 2)
    try await settle(jobs[0], .rest(pause: .seconds(3600), memory: .seconds(3600)))
    try await storage.beginWakeSweep(pause: .zero, .both)
  }

  /// The next sweep frees both: one at once, the other one's claim in a minute.
  func expectFree(_ devices: [DeviceAddress]) async throws {
    try await storage.beginWakeSweep(pause: .zero, .both)
    for device in devices { try await ask(device) }
    let free = try await claim(.fcm)
    #expect(free.count == 1)
    let held = try #require(devices.first { $0 != free.first?.device })
    let due = try #require(try await storage.waitingWake(of: held)).due
    let limit = try await storage.lastWakeSweep().adding(WakeTerms.skew + .seconds(1))
    #expect(due <= limit)
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
