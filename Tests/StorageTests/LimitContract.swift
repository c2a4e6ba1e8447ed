import RelayCore
import Storage
import TestTags
import Testing

@Suite(.tags(.stores)) struct LimitContract {
  /// Reference 3.6, as corrected.
  @Test(arguments: CoordinationBackend.allCases)
  func `charges are allowed and refused as the vectors say`(_ backend: CoordinationBackend) async throws {
    let vectors = try Vectors.load().leakyBucket
    try #require(vectors.count == 4)
    for vector in vectors {
      let clock = ManualClock(Sample.noon)
      let buckets = [LimiterName.messages: Bucket(size: vector.size, perMinute: vector.perMinute)]
      try await backend.with(buckets: buckets, clock: clock) { coordination in
        let key = LimitKey(try Sample.number(1))
        for (index, event) in vector.events.enumerated() {
          clock.set(Timestamp(millis: Sample.noon.millis + event.atMillis))
          let decision = await coordination[0].take(event.amount, from: .messages, key: key)
          #expect((decision == .allowed) == vector.allowed[index], "\(vector.name), event \(index)")
        }
      }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `64 concurrent callers are allowed what the bucket holds, no more`(_ backend: CoordinationBackend) async throws {
    try await backend.with(2, buckets: [.messages: Bucket(size: 1000, perMinute: 60)]) { coordination in
      let key = LimitKey(try Sample.number(1))
      let allowed = await withTaskGroup(of: Int.self) { group in
        for caller in 0..<64 {
          group.addTask {
            var allowed = 0
            for _ in 0..<20 where await coordination[caller % 2].take(1, from: .messages, key: key) == .allowed {
              allowed += 1
            }
            return allowed
          }
        }
        return await group.reduce(0, +)
      }
      #expect(allowed == 1000)
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `a refusal charges nothing and says how long to wait`(_ backend: CoordinationBackend) async throws {
    let clock = ManualClock(Sample.noon)
    try await backend.with(buckets: [.attachments: Bucket(size: 3, perMinute: 6)], clock: clock) { coordination in
      let key = LimitKey(try Sample.number(1))
      func take(_ amount: Double) async -> LimitDecision {
        await coordination[0].take(amount, from: .attachments, key: key)
      }
      #expect(await take(2) == .allowed)
      #expect(await take(3) == .refused(retryAfter: .seconds(20)))
      #expect(await take(4) == .refused(retryAfter: nil))
      #expect(await take(1) == .allowed)
      #expect(await take(1) == .refused(retryAfter: .seconds(10)))
      clock.advance(.milliseconds(9_999))
      #expect(await take(1) == .refused(retryAfter: .milliseconds(1)))
      clock.advance(.milliseconds(1))
      #expect(await take(1) == .allowed)
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `keys and limiters have buckets of their own`(_ backend: CoordinationBackend) async throws {
    let one = Bucket(size: 1, perMinute: 1)
    try await backend.with(buckets: [.messages: one, .preKeys: one]) { coordination in
      let (own, target) = try (Sample.number(1), Sample.number(2))
      let keys = [
        LimitKey(own), LimitKey(target), LimitKey(own, target), LimitKey(target, own), LimitKey(own, target, .all),
        LimitKey(own, target, .one(.master)),
      ]
      for expected in [LimitDecision.allowed, .refused(retryAfter: .seconds(60))] {
        for limiter in [LimiterName.messages, .preKeys] {
          for key in keys { #expect(await coordination[0].take(1, from: limiter, key: key) == expected) }
        }
      }
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `the default shapes serve where none is configured`(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      let key = LimitKey(try Sample.number(1))
      for _ in 0..<60 { #expect(await coordination[0].take(1, from: .preKeys, key: key) == .allowed) }
      #expect(await coordination[0].take(1, from: .preKeys, key: key) == .refused(retryAfter: .seconds(150)))
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `a free bucket's space is all of it, then what charges leave, and comes back`(_ backend: CoordinationBackend)
    async throws
  {
    let clock = ManualClock(Sample.noon)
    try await backend.with(buckets: [.messages: Bucket(size: 10, perMinute: 6)], clock: clock) { coordination in
      let key = LimitKey(try Sample.number(1))
      func space() async -> Double { await coordination[0].space(in: .messages, key: key) }
      #expect(await space() == 10)
      #expect(await coordination[0].take(2.5, from: .messages, key: key) == .allowed)
      for _ in 0..<2 { #expect(await space() == 7.5) }
      clock.advance(.seconds(20))
      #expect(abs(await space() - 9.5) < 1e-9)
      clock.advance(.seconds(20))
      #expect(await space() == 10)
      #expect(await coordination[0].space(in: .messages, key: LimitKey(try Sample.number(2))) == 10)
    }
  }
}

@Suite(.tags(.stores)) struct SeveralLimitsContract {
  // All take minutes to refill: Redis forgets a bucket that must be full by then, and its clock for that does not stand
  // still with the test's.
  private static let shapes: [LimiterName: Bucket] = [
    .peerRequests: Bucket(size: 20, perMinute: 10), .peerRecipients: Bucket(size: 50, perMinute: 5),
    .peerBytes: Bucket(size: 100_000, perMinute: 20_000), .peerPreKeys: Bucket(size: 4, perMinute: 0),
    .messages: Bucket(size: 5, perMinute: 0.7),
  ]

  @Test(arguments: CoordinationBackend.allCases)
  func `all are charged or none, and the longest wait is told`(_ backend: CoordinationBackend) async throws {
    try await backend.with(buckets: Self.shapes) { coordination in
      let key = LimitKey(try Sample.relay("beta"))
      func take(_ requests: Double, _ recipients: Double, _ bytes: Double) async -> LimitDecision {
        await coordination[0].take([
          LimitCharge(requests, from: .peerRequests, key: key),
          LimitCharge(recipients, from: .peerRecipients, key: key), LimitCharge(bytes, from: .peerBytes, key: key),
        ])
      }
      func spaces() async -> [Double] {
        var spaces: [Double] = []
        for limiter in [LimiterName.peerRequests, .peerRecipients, .peerBytes] {
          spaces.append(await coordination[0].space(in: limiter, key: key))
        }
        return spaces
      }
      #expect(await take(15, 40, 500) == .allowed)
      #expect(await spaces() == [5, 10, 99_500])
      // Ten requests return a minute, five recipients.
      #expect(await take(6, 15, 1) == .refused(retryAfter: .seconds(60)))
      #expect(await take(20, 11, 1) == .refused(retryAfter: .seconds(90)))
      #expect(await take(20, 11, 100_001) == .refused(retryAfter: nil))
      #expect(await take(21, 11, 1) == .refused(retryAfter: nil))
      #expect(await spaces() == [5, 10, 99_500])
      #expect(await take(5, 10, 99_500) == .allowed)
      #expect(await spaces() == [0, 0, 0])
      #expect(await take(0, 0, 0) == .allowed)
      #expect(await coordination[0].take([]) == .allowed)
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `charges behind others are made each by itself, and only if those are allowed`(
    _ backend: CoordinationBackend
  ) async throws {
    try await backend.with(buckets: Self.shapes) { coordination in
      let beta = LimitKey(try Sample.relay("beta"))
      let targets = try (1...3).map { LimitCharge(2, from: .messages, key: LimitKey(try Sample.number($0))) }
      func take(_ requests: Double, _ keys: Double, _ count: Int) async -> ChainedDecision {
        await coordination[0].take(
          [
            LimitCharge(requests, from: .peerRequests, key: beta), LimitCharge(keys, from: .peerPreKeys, key: beta),
          ], thenEach: Array(targets.prefix(count)))
      }
      func spaces() async -> [Double] {
        var spaces: [Double] = []
        for limiter in [LimiterName.peerRequests, .peerPreKeys] {
          spaces.append(await coordination[0].space(in: limiter, key: beta))
        }
        for target in targets { spaces.append(await coordination[0].space(in: target.limiter, key: target.key)) }
        return spaces
      }
      let refused = LimitDecision.refused(retryAfter: nil)
      #expect(await take(1, 1, 2) == ChainedDecision(.allowed, further: [.allowed, .allowed]))
      #expect(await spaces() == [19, 3, 3, 3, 5])
      // More than the first bucket can ever hold.
      #expect(await take(1, 5, 3) == ChainedDecision(refused, further: [refused, refused, refused]))
      #expect(await spaces() == [19, 3, 3, 3, 5])
      #expect(await take(1, 1, 3) == ChainedDecision(.allowed, further: [.allowed, .allowed, .allowed]))
      // One of each of the first two is left: the third has its own decision.
      let mixed = await take(1, 1, 3)
      #expect(mixed.first == .allowed && mixed.further.last == .allowed)
      #expect(mixed.further.prefix(2).allSatisfy { $0 != .allowed })
      #expect(await spaces() == [17, 1, 1, 1, 1])
      #expect(await take(1, 1, 0) == ChainedDecision(.allowed, further: []))
      #expect(await spaces() == [16, 0, 1, 1, 1])
    }
  }

  /// A supply that all draw from, each within a bucket of his own.
  @Test(arguments: CoordinationBackend.allCases)
  func `64 callers share what lies behind their own buckets, and nothing that these refuse`(
    _ backend: CoordinationBackend
  ) async throws {
    let buckets: [LimiterName: Bucket] = [
      .preKeys: Bucket(size: 5, perMinute: 0.001), .preKeysTarget: Bucket(size: 100, perMinute: 0.001),
    ]
    try await backend.with(2, buckets: buckets) { coordination in
      let target = LimitCharge(1, from: .preKeysTarget, key: LimitKey(try Sample.number(1)))
      let taken = try await withThrowingTaskGroup(of: (own: Int, shared: Int).self) { group in
        for caller in 0..<64 {
          let own = LimitCharge(1, from: .preKeys, key: LimitKey(try Sample.number(100 + caller)))
          group.addTask {
            var taken = (own: 0, shared: 0)
            for _ in 0..<8 {
              let decision = await coordination[caller % 2].take([own], thenEach: [target])
              if decision.first == .allowed { taken.own += 1 }
              if decision.further == [.allowed] { taken.shared += 1 }
              #expect(decision.first == .allowed || decision.further != [.allowed])
            }
            return taken
          }
        }
        return try await group.reduce(into: (own: 0, shared: 0)) {
          $0 = (own: $0.own + $1.own, shared: $0.shared + $1.shared)
        }
      }
      #expect(taken.own == 64 * 5)
      #expect(taken.shared == 100)
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `random charges are judged as by buckets side by side`(_ backend: CoordinationBackend) async throws {
    let clock = ManualClock(Sample.noon)
    let limiters = Self.shapes.keys.sorted { $0.rawValue < $1.rawValue }
    try await backend.with(2, buckets: Self.shapes, clock: clock) { coordination in
      var random = SplitMix(state: 20_261_121)
      var model: [Charged: LeakyBucket] = [:]
      var allowed = 0
      for round in 0..<1500 {
        clock.advance(
          .milliseconds(Int64.random(in: 0...2000, using: &random) * Int64.random(in: 0...20, using: &random)))
        let count = Int.random(in: 1...WireLimits.limitChargesMax, using: &random)
        var charges: [LimitCharge] = []
        for choice in Self.choices(limiters).shuffled(using: &random).prefix(count) {
          let size = try #require(Self.shapes[choice.limiter]).size
          let amount = size * Double.random(in: 0...1, using: &random)
          let whole = Bool.random(using: &random) ? amount.rounded(.up) : amount / 10
          // Now and then more than it can ever hold.
          let charged = Int.random(in: 0..<200, using: &random) == 0 ? size + 1 : whole
          charges.append(LimitCharge(charged, from: choice.limiter, key: LimitKey(try Sample.number(choice.index))))
        }
        let expected = Self.judge(charges, &model, at: clock.now)
        let decision = await coordination[round % 2].take(charges)
        #expect(decision == expected, "round \(round)")
        if decision == .allowed { allowed += 1 }
        if let charge = charges.randomElement(using: &random), let shape = Self.shapes[charge.limiter] {
          let space = await coordination[0].space(in: charge.limiter, key: charge.key)
          let wanted = model[Charged(charge)]?.space(in: shape, at: clock.now) ?? shape.size
          #expect(abs(space - wanted) <= 1e-9 * shape.size, "round \(round)")
        }
      }
      #expect((100...1400).contains(allowed))
    }
  }

  @Test(arguments: CoordinationBackend.allCases)
  func `32 concurrent callers exhaust the narrowest bucket, and charge no other for what it refuses`(
    _ backend: CoordinationBackend
  ) async throws {
    let buckets: [LimiterName: Bucket] = [
      .peerRequests: Bucket(size: 1000, perMinute: 60), .peerRecipients: Bucket(size: 600, perMinute: 60),
    ]
    try await backend.with(2, buckets: buckets) { coordination in
      let beta = LimitKey(try Sample.relay("beta"))
      let allowed = await withTaskGroup(of: Int.self) { group in
        for caller in 0..<32 {
          group.addTask {
            // In either order of the buckets: nobody waits for anybody.
            var charges = [
              LimitCharge(1, from: .peerRequests, key: beta), LimitCharge(2, from: .peerRecipients, key: beta),
            ]
            if caller.isMultiple(of: 3) { charges.reverse() }
            var allowed = 0
            for _ in 0..<20 where await coordination[caller % 2].take(charges) == .allowed { allowed += 1 }
            return allowed
          }
        }
        return await group.reduce(0, +)
      }
      #expect(allowed == 300)
      #expect(await coordination[0].space(in: .peerRecipients, key: beta) == 0)
      #expect(await coordination[0].space(in: .peerRequests, key: beta) == 700)
    }
  }

  private struct Choice { let limiter: LimiterName, index: Int }
  private struct Charged: Hashable {
    let limiter: LimiterName
    let key: LimitKey
    init(_ charge: LimitCharge) { (limiter, key) = (charge.limiter, charge.key) }
  }

  private static func choices(_ limiters: [LimiterName]) -> [Choice] {
    limiters.flatMap { limiter in (0..<2).map { Choice(limiter: limiter, index: $0) } }
  }

  private static func judge(_ charges: [LimitCharge], _ model: inout [Charged: LeakyBucket], at now: Timestamp)
    -> LimitDecision
  {
    var charged = model
    let decisions = charges.map { charge -> LimitDecision in
      let shape = shapes[charge.limiter] ?? charge.limiter.defaultBucket
      return charged[Charged(charge), default: LeakyBucket(shape, at: now)].take(charge.amount, from: shape, at: now)
    }
    var longest = Duration.zero
    var isRefused = false
    for case .refused(let wait) in decisions {
      guard let wait else { return .refused(retryAfter: nil) }
      isRefused = true
      longest = max(longest, wait)
    }
    guard isRefused else {
      model = charged
      return .allowed
    }
    return .refused(retryAfter: longest)
  }
}

/// Random numbers that are the same in every run.
private struct SplitMix: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }
}
