import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// The takes that a process allows before Redis has charged it.
@Suite(.tags(.stores)) struct LeasedTakesTests {
  private let clock = ManualClock(Sample.noon)
  private let key: LimitKey
  private let leases: LeasedTakes

  init() throws {
    key = LimitKey(try Sample.number(1))
    leases = LeasedTakes(
      of: [.messages, .receipts], shapes: [.messages: Bucket(size: 64, perMinute: 60)], clock: clock.wall)
  }

  private func allows(_ amount: Double = 1, from limiter: LimiterName = .messages) -> Bool {
    leases.allows([LimitCharge(amount, from: limiter, key: key)])
  }

  @Test func `a sixteenth is allowed before it is charged, and again when it was`() async {
    for _ in 0..<4 { #expect(allows()) }
    #expect(!allows())
    #expect(leases.debt(of: .messages, key) == 4)
    await leases.payNow { debts in
      #expect(debts.map(\.amount) == [4])
      return [.allowed]
    }
    #expect(leases.debt(of: .messages, key) == 0)
    #expect(allows())
  }

  @Test func `once a process has used a quarter of a bucket, Redis is asked`() async {
    for _ in 0..<16 {
      #expect(allows())
      await leases.payNow { $0.map { _ in .allowed } }
    }
    #expect(!allows())
    clock.advance(.seconds(1))
    #expect(allows(), "a charge has come back")
    #expect(!allows())
  }

  @Test func `charges that Redis was asked for count as used`() {
    leases.charged([LimitCharge(16, from: .messages, key: key)])
    #expect(!allows())
    #expect(allows(from: .receipts))
  }

  @Test(arguments: [1, 2, 4])
  func `processes over one Redis allow the bucket, and no more than a sixteenth each on top`(count: Int) async throws {
    try await RedisServer.with { server in
      let buckets = [LimiterName.messages: Bucket(size: 64, perMinute: 60)]
      try await withRedis(server, count, buckets: buckets, leased: [.messages], clock: clock) { processes in
        var allowed = 0
        for round in 0..<200 {
          if await processes[round % count].take(1, from: .messages, key: key) == .allowed { allowed += 1 }
        }
        let bound = count == 1 ? 64 : 64 + 4 * count
        #expect((64...bound).contains(allowed))
        // All is charged in the end: what a process owes goes with its next charge.
        #expect(await processes[0].space(in: .messages, key: key) == 0)
        clock.advance(.seconds(8))
        var more = 0
        for round in 0..<40 {
          if await processes[round % count].take(1, from: .messages, key: key) == .allowed { more += 1 }
        }
        #expect(allowed + more <= bound + 8)
      }
    }
  }

  @Test func `an owed charge is paid in a while, even if nobody asks any more`() async throws {
    try await RedisServer.with { server in
      let buckets = [LimiterName.messages: Bucket(size: 64, perMinute: 60)]
      try await withRedis(server, 2, buckets: buckets, leased: [.messages], clock: clock) { processes in
        #expect(await processes[0].take(3, from: .messages, key: key) == .allowed)
        try await eventually("the other process sees it") {
          await processes[1].space(in: .messages, key: key) == 61
        }
      }
    }
  }

  @Test func `all buckets of a charge are leased or none`() throws {
    let small = LimitCharge(1, from: .preKeys, key: key)
    #expect(!leases.allows([LimitCharge(1, from: .messages, key: key), small]))
    #expect(leases.debt(of: .messages, key) == 0)
    let other = LimitCharge(5, from: .messages, key: LimitKey(try Sample.number(2)))
    #expect(!leases.allows([LimitCharge(1, from: .messages, key: key), other]))
    #expect(leases.debt(of: .messages, key) == 0)
  }

  @Test func `a charge without room in its bucket stays owed, and goes before the next one`() async {
    for _ in 0..<4 { #expect(allows()) }
    await leases.payNow { $0.map { _ in .refused(retryAfter: .seconds(1)) } }
    #expect(leases.debt(of: .messages, key) == 4 && !allows())
    let debts = leases.takeDebts(of: [LimitCharge(1, from: .messages, key: key)])
    #expect(debts.map(\.amount) == [4])
    #expect(leases.debt(of: .messages, key) == 4 && !allows(), "it is owed until Redis has charged it")
    #expect(leases.takeDebts(of: [LimitCharge(1, from: .messages, key: key)]).isEmpty, "nobody pays it twice")
    leases.settle(debts, by: [.refused(retryAfter: nil)])
    #expect(leases.debt(of: .messages, key) == 4 && !allows())
    leases.settle(leases.takeDebts(of: [LimitCharge(1, from: .messages, key: key)]), by: [.allowed])
    #expect(leases.debt(of: .messages, key) == 0 && allows())
  }
}
