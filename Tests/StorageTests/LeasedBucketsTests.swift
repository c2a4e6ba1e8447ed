import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Random charges by several processes, against the one bucket that they share.
@Suite(.tags(.unit)) struct LeasedBucketsTests {
  /// Processes with slices of one shared bucket, as Redis keeps it.
  private struct Processes {
    let shape: Bucket
    let key: LimitKey
    let clock = ManualClock(Sample.noon)
    var shared: LeakyBucket
    var leased: [LeasedBuckets]
    /// All that was allowed.
    private(set) var allowed = 0.0

    init(_ count: Int, _ shape: Bucket) throws {
      self.shape = shape
      key = LimitKey(try Sample.number(1))
      shared = LeakyBucket(shape, at: clock.now)
      leased = (0..<count).map { _ in LeasedBuckets(of: [.messages], shapes: [.messages: shape]) }
    }

    /// As `RedisCoordination.take`: by the process itself, or else by the shared bucket, what it owes first.
    mutating func take(_ amount: Double, at process: Int) -> LimitDecision {
      let charges = [LimitCharge(amount, from: .messages, key: key)]
      if leased[process].allows(charges, at: clock.now) {
        allowed += amount
        return .allowed
      }
      let debts = leased[process].takeDebts(of: charges)
      settle(debts, of: process)
      let decision = shared.take(amount, from: shape, at: clock.now)
      if decision == .allowed {
        leased[process].charged(charges, at: clock.now)
        allowed += amount
      }
      return decision
    }

    mutating func pay(_ process: Int) { settle(leased[process].takeDebts(), of: process) }

    private mutating func settle(_ debts: [LimitCharge], of process: Int) {
      let decisions = debts.map { shared.take($0.amount, from: shape, at: clock.now) }
      leased[process].settle(debts, by: decisions)
    }

    var owed: Double { leased.reduce(0) { $0 + $1.debt(of: .messages, key) } }
    /// All that the bucket may have allowed by now.
    var bound: Double { shape.size + Double(clock.now.millis - Sample.noon.millis) * shape.perMillisecond }
  }

  @Test(arguments: [1, 2, 3, 8], [UInt64(1), 2, 3, 4, 5])
  func `never more is allowed than the bucket, and one slice a process`(count: Int, seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let size = Double(Int.random(in: 20...2000, using: &random))
    var processes = try Processes(
      count, Bucket(size: size, perMinute: size * Double.random(in: 0...4, using: &random)))
    let slice = size * LeasedBuckets.slice
    for _ in 0..<5000 {
      switch Int.random(in: 0..<100, using: &random) {
      case ..<80:
        let amount = Double(Int.random(in: 1...(Bool.random(using: &random) ? 2 : 12), using: &random))
        _ = processes.take(amount, at: Int.random(in: 0..<count, using: &random))
      case ..<95: processes.pay(Int.random(in: 0..<count, using: &random))
      default: processes.clock.advance(.milliseconds(Int64.random(in: 0...2000, using: &random)))
      }
      // What the shared bucket was charged is within its bound, to the last charge. What it was not is a slice at most.
      let (allowed, owed, bound) = (processes.allowed, processes.owed, processes.bound + 1e-6)
      let debts = processes.leased.map { $0.debt(of: .messages, processes.key) }
      guard allowed - owed <= bound, debts.allSatisfy({ $0 <= slice }), allowed <= bound + Double(count) * slice else {
        Issue.record("\(allowed) of \(bound) were allowed, and \(debts) are owed")
        return
      }
    }
    // All that is owed is charged as soon as the bucket has room.
    for process in 0..<count {
      processes.clock.advance(.seconds(3600 * 24))
      guard processes.shape.perMinute > 0 else { break }
      processes.pay(process)
    }
    if processes.shape.perMinute > 1 { #expect(processes.owed == 0) }
  }

  @Test(arguments: [UInt64(1), 2, 3])
  func `in a burst one process allows the bucket, to the last charge`(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    var one = try Processes(1, Bucket(size: 160, perMinute: 320))
    while one.take(1, at: 0) == .allowed {
      if Int.random(in: 0..<5, using: &random) == 0 { one.pay(0) }
    }
    #expect(one.allowed == 160 && one.owed == 0)
  }

  @Test func `buckets of which something is owed are bounded, and others go to Redis`() throws {
    var leased = LeasedBuckets(of: [.receipts], shapes: [:], debtsMax: 3)
    let charges = try (0..<5).map { [LimitCharge(1, from: .receipts, key: LimitKey(try Sample.number($0)))] }
    #expect(charges.map { leased.allows($0, at: Sample.noon) } == [true, true, true, false, false])
    let debts = leased.takeDebts()
    #expect(debts.count == 3 && leased.owes)
    leased.settle(debts, by: debts.map { _ in .allowed })
    #expect(!leased.owes)
    let isAllowed = leased.allows(charges[4], at: Sample.noon)
    #expect(isAllowed)
  }
}
