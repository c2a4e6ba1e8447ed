import Logging
import RelayCore
import Storage
import Synchronization
import TestTags
import Testing

@testable import Relay

/// The cost of wrong codes, hour by hour, at the default sizes.
@Suite(.tags(.unit)) struct CodeLimitTests {
  /// A clock that stands still until it is moved.
  private final class Hours: Sendable {
    private let millis = Mutex<Int64>(1_700_000_000_000)
    var clock: WallClock { WallClock { [self] in Timestamp(millis: millis.withLock { $0 }) } }
    func pass(minutes: Double) { millis.withLock { $0 += Int64(minutes * 60_000) } }
  }

  private let hours = Hours()
  private let limits: CodeLimits
  private let number: AccountNumber
  private let owner: RequestOrigin

  init() throws {
    // So many tries a minute that the wrong ones alone count.
    let buckets = [
      LimiterName.verifyNumber: Bucket(size: 1000, perMinute: 1000),
      .verifyDevice: Bucket(size: 1000, perMinute: 1000),
    ]
    limits = CodeLimits(
      limiter: LocalCoordination(buckets: buckets, clock: hours.clock),
      wrongCodes: WrongCodes(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }), isDevelopment: false)
    number = try #require(AccountNumber(e164: "+15551234567"))
    owner = try Self.origin("203.0.113.9")
  }

  private static func origin(_ text: String) throws -> RequestOrigin {
    let address: ClientAddress = try #require(ClientAddress(text: text))
    return RequestOrigin(address: address, isSecure: true)
  }
  private static func stranger(_ index: Int) throws -> RequestOrigin {
    try origin("198.51.\(index / 250).\(1 + index % 250)")
  }

  /// The outcome of a try whose judge says `verdict`.
  private func attempt(
    from origin: RequestOrigin, _ purpose: CodePurpose = .registration, verdict: Problem.Kind? = .codeRefused
  ) async -> Problem.Kind? {
    do throws(Problem) {
      try await limits.judge(purpose, of: number, from: origin) { () async throws(Problem) in
        if let verdict { throw Problem(verdict) }
      }
      return nil
    } catch {
      return error.kind
    }
  }

  /// How many of `count` wrong codes, each from another address, are judged.
  private func judged(_ count: Int, _ purpose: CodePurpose = .registration, from first: Int = 0) async throws -> Int {
    var judged = 0
    for index in 0..<count {
      judged += await attempt(from: try Self.stranger(first + index), purpose) == .codeRefused ? 1 : 0
    }
    return judged
  }

  @Test func `fifteen wrong codes an hour are judged, three of them kept for addresses that asked`() async throws {
    #expect(try await judged(40) == 12)
    try await limits.chargeSending(of: number, by: .sms, from: owner)
    for _ in 0..<3 { #expect(await attempt(from: owner) == .codeRefused) }
    #expect(await attempt(from: owner) == .rateLimited)
    // Linking codes are counted apart.
    #expect(try await judged(40, .linking) == 12)
    hours.pass(minutes: 60)
    #expect(try await judged(40, from: 100) == 12)
  }

  @Test func `fifty wrong codes a day are judged, and as many come back a day`() async throws {
    var first = 0
    for _ in 0..<24 {
      first += try await judged(20, from: 0)
      hours.pass(minutes: 60)
    }
    // The tries that the bucket held, and those that came back meanwhile, at the price of strangers.
    #expect((40...80).contains(first), "\(first)")
    var second = 0
    for _ in 0..<24 {
      second += try await judged(20, from: 0)
      hours.pass(minutes: 60)
    }
    #expect((38...41).contains(second), "\(second)")
  }

  @Test func `an address that asks after the pause began has tries that no stranger takes`() async throws {
    #expect(try await judged(40) == 12)
    #expect(await attempt(from: owner) == .rateLimited)
    try await limits.chargeSending(of: number, by: .sms, from: owner)
    for _ in 0..<40 { #expect(try await judged(1, from: 200) == 0) }
    #expect(await attempt(from: owner, verdict: nil) == nil)
    // A right code gives back what it cost.
    for _ in 0..<20 { #expect(await attempt(from: owner, verdict: nil) == nil) }
  }

  @Test func `only wrong codes are counted`() async throws {
    for verdict in [nil, .registrationLocked, .numberElsewhere, .tooManyDevices] as [Problem.Kind?] {
      for index in 0..<30 { #expect(await attempt(from: try Self.stranger(index), verdict: verdict) == verdict) }
    }
    #expect(try await judged(40) == 12)
  }

  @Test func `ten codes a day are sent to a number, whoever asks`() async throws {
    let buckets = [LimiterName.smsDestination: Bucket(size: 1000, perMinute: 1000)]
    let limits = CodeLimits(
      limiter: LocalCoordination(buckets: buckets, clock: hours.clock),
      wrongCodes: WrongCodes(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }), isDevelopment: false)
    var sent = 0
    for index in 0..<30 {
      let stranger = try Self.stranger(index)
      do throws(Problem) {
        try await limits.chargeSending(of: number, by: .sms, from: stranger)
        sent += 1
      } catch {
        #expect(error.kind == .rateLimited && error.retryAfter != nil)
      }
    }
    #expect(sent == 10)
  }
}

/// The line that says that codes are being guessed.
@Suite(.tags(.unit)) struct WrongCodeLineTests {
  @Test func `it comes when a number is paused, or when many are wrong, and once a minute`() {
    let lines = Lines()
    let moment = Mutex(ContinuousClock.now)
    let wrongCodes = WrongCodes(logger: lines.logger) { moment.withLock { $0 } }
    for _ in 0..<5 { wrongCodes.note(.registration, isPaused: false) }
    #expect(lines.count == 0)
    for _ in 0..<5 { wrongCodes.note(.linking, isPaused: true) }
    #expect(lines.count == 1)
    moment.withLock { $0 += .seconds(61) }
    wrongCodes.note(.pin, isPaused: false)
    #expect(lines.count == 2, "what came behind the last line is told")
    moment.withLock { $0 += .seconds(61) }
    for _ in 0..<29 { wrongCodes.note(.registration, isPaused: false) }
    #expect(lines.count == 2)
    wrongCodes.note(.registration, isPaused: false)
    #expect(lines.count == 3)
  }
}

/// Counts what is logged.
private final class Lines: Sendable {
  private let counted = Mutex(0)
  var count: Int { counted.withLock { $0 } }
  var logger: Logger { Logger(label: "test") { [self] _ in Handler(lines: self) } }

  private struct Handler: LogHandler {
    let lines: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }
    func log(event: LogEvent) { lines.counted.withLock { $0 += 1 } }
  }
}
