import RelayCore
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.unit)) struct BucketTableTests {
  @Test func `the table holds no more buckets than it may`() throws {
    var table = BucketTable(buckets: [:], bucketsMax: 100)
    for index in 0..<10_000 {
      _ = table.take(1, from: .messages, key: LimitKey(try Sample.number(index)), at: Sample.noon)
      #expect(table.count <= 100)
    }
  }

  @Test func `a bucket that is charged again and again is not forgotten`() throws {
    var table = BucketTable(buckets: [.messages: Bucket(size: 50, perMinute: 1)], bucketsMax: 20)
    let busy = LimitKey(try Sample.number(0))
    var allowed = 0
    for index in 1..<1000 {
      _ = table.take(1, from: .messages, key: LimitKey(try Sample.number(index)), at: Sample.noon)
      if table.take(1, from: .messages, key: busy, at: Sample.noon) == .allowed { allowed += 1 }
    }
    #expect(allowed == 50)
  }

  @Test func `buckets that are full again are dropped, each limiter's in its own time`() throws {
    var table = BucketTable(buckets: [:], bucketsMax: 1000)
    var now = Sample.noon
    let limiters: [LimiterName] = [.messages, .registrationLock]
    for index in 0..<150 {
      for limiter in limiters { _ = table.take(1, from: limiter, key: LimitKey(try Sample.number(index)), at: now) }
    }
    func wait(_ duration: Duration) throws {
      for _ in 0..<2 {
        now = now.adding(duration)
        for limiter in limiters { _ = table.take(1, from: limiter, key: LimitKey(try Sample.number(0)), at: now) }
      }
    }
    // Longer than a bucket of messages takes to refill, twice; one of a registration lock takes a day.
    try wait(.seconds(61))
    #expect(table.count == 151)
    try wait(.seconds(86_401))
    #expect(table.count == 2)
  }

  @Test func `all limiters together hold no more buckets than the table may`() throws {
    var table = BucketTable(buckets: [:], bucketsMax: 100)
    for index in 0..<10_000 {
      let limiter = LimiterName.allCases[index / 7 % LimiterName.allCases.count]
      _ = table.take(1, from: limiter, key: LimitKey(try Sample.number(index)), at: Sample.noon)
      #expect(table.count <= 100)
    }
  }

  @Test func `a flood of keys at one limiter makes no other forget`() throws {
    var table = BucketTable(buckets: [:], bucketsMax: 100)
    let victim = LimitKey(try Sample.number(0))
    func attempt() -> LimitDecision { table.take(1, from: .registrationLock, key: victim, at: Sample.noon) }
    for _ in 0..<10 { #expect(attempt() == .allowed) }
    for index in 1..<5000 {
      _ = table.take(1, from: .verifyNumber, key: LimitKey(try Sample.number(index)), at: Sample.noon)
      _ = table.take(1, from: .verifyAddress, key: LimitKey(try Sample.number(index)), at: Sample.noon)
    }
    guard case .refused = attempt() else {
      Issue.record("the bucket was forgotten")
      return
    }
  }

  @Test func `a process by itself allows a quarter, and at least one charge`() {
    #expect(Bucket(size: 60, perMinute: 60).conservative == Bucket(size: 15, perMinute: 15))
    #expect(Bucket(size: 2, perMinute: 2).conservative == Bucket(size: 1, perMinute: 0.5))
    #expect(Bucket(size: 0, perMinute: 0).conservative == Bucket(size: 0, perMinute: 0))
  }
}

@Suite(.tags(.unit)) struct RedisSignalTests {
  @Test func `a signal survives its text`() throws {
    let contents: [RedisSignal.Content] = [
      .signal(.accountChanged(try Sample.number(1))), .signal(.peersChanged), .signal(.contactsChanged),
      .signal(.wakesAsked), .missed,
    ]
    for content in contents {
      let signal = RedisSignal(sender: "a1", content: content)
      #expect(RedisSignal(Array(signal.text.utf8)) == signal)
    }
  }

  @Test(arguments: ["", "a", "a ", "a b", "a account", "a account 12", "a peers x", "a contacts x", "a wakes x", "\0"])
  func `other texts are no signals`(_ text: String) {
    #expect(RedisSignal(Array(text.utf8)) == nil)
  }
}
