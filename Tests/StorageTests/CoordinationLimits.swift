import RelayCore
import Storage
import Testing

@Suite struct LimitContract {
  /// Reference 3.6, as corrected.
  @Test("Charges are allowed and refused as the vectors say", arguments: CoordinationBackend.allCases)
  func vectors(_ backend: CoordinationBackend) async throws {
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

  @Test("64 concurrent callers are allowed what the bucket holds, no more", arguments: CoordinationBackend.allCases)
  func atomic(_ backend: CoordinationBackend) async throws {
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

  @Test("A refusal charges nothing and says how long to wait", arguments: CoordinationBackend.allCases)
  func refusal(_ backend: CoordinationBackend) async throws {
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

  @Test("Keys and limiters have buckets of their own", arguments: CoordinationBackend.allCases)
  func separate(_ backend: CoordinationBackend) async throws {
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

  @Test("The shapes of reference 3.6 serve where none is configured", arguments: CoordinationBackend.allCases)
  func defaults(_ backend: CoordinationBackend) async throws {
    try await backend.with { coordination in
      let key = LimitKey(try Sample.number(1))
      for _ in 0..<3 { #expect(await coordination[0].take(1, from: .preKeys, key: key) == .allowed) }
      #expect(await coordination[0].take(1, from: .preKeys, key: key) == .refused(retryAfter: .seconds(600)))
    }
  }
}
