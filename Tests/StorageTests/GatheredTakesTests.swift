import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Charges that share a script.
@Suite(.tags(.unit)) struct GatheredTakesTests {
  private static func take(_ key: String) -> GatheredTakes.Take {
    GatheredTakes.Take(keys: [key], charges: [(1, Bucket(size: 1, perMinute: 1))])
  }

  /// Answers when it is told to, each charge by the number that its key is.
  private final class Judge: Sendable {
    private let sizes = Mutex<[Int]>([])
    /// How many charges each batch had, so far.
    var batches: [Int] { sizes.withLock { $0 } }
    let gate = Gate()

    func judge(_ takes: [GatheredTakes.Take]) async -> [LimitDecision]? {
      sizes.withLock { $0.append(takes.count) }
      await gate.wait()
      return takes.map { .refused(retryAfter: .milliseconds(Int($0.keys[0]) ?? 0)) }
    }
  }

  @Test func `messages that come while others are judged are judged together, each by itself and in order`()
    async throws
  {
    let judge = Judge()
    let takes = GatheredTakes(patience: .seconds(600), judge: judge.judge)
    let decisions = Mutex<[Int: LimitDecision?]>([:])
    try await withThrowingTaskGroup(of: Void.self) { group in
      let decide = { @Sendable (number: Int) async in
        let decision = await takes.decide([Self.take("\(number)")])[0]
        decisions.withLock { $0[number] = decision }
      }
      group.addTask { await decide(1) }
      try await eventually("the first is judged") { judge.batches == [1] }
      for number in 2...100 { group.addTask { await decide(number) } }
      try await eventually("the others wait") { takes.waitingCount == 99 }
      judge.gate.open()
      try await group.waitForAll()
    }
    #expect(judge.batches == [1, 64, 35])
    for number in 1...100 {
      #expect(decisions.withLock { $0[number] } == .refused(retryAfter: .milliseconds(number)))
    }
  }

  /// Redis holds up one script: the charges that came behind it do not wait for another one.
  @Test func `charges that have waited too long are for the process to decide`() async throws {
    let judge = Judge()
    let clock = Mutex(ContinuousClock.now)
    let takes = GatheredTakes(patience: .milliseconds(500), now: { clock.withLock { $0 } }, judge: judge.judge)
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { #expect(await takes.decide([Self.take("1")]) == [.refused(retryAfter: .milliseconds(1))]) }
      try await eventually("the first is judged") { judge.batches == [1] }
      for number in 2...100 {
        group.addTask { #expect(await takes.decide([Self.take("\(number)")]) == [nil]) }
      }
      try await eventually("the others wait") { takes.waitingCount == 99 }
      clock.withLock { $0 += .milliseconds(501) }
      group.addTask { #expect(await takes.decide([Self.take("101")]) == [.refused(retryAfter: .milliseconds(101))]) }
      try await eventually("one more waits") { takes.waitingCount == 100 }
      judge.gate.open()
      try await group.waitForAll()
    }
    #expect(judge.batches == [1, 1])
  }

  @Test func `what follows a charge stays with it, and each caller gets its own decisions`() async throws {
    let judge = Mutex<[Int]>([])
    let bucket = Bucket(size: 1, perMinute: 1)
    let takes = GatheredTakes(patience: .seconds(600)) { takes in
      judge.withLock { $0.append(takes.count) }
      return takes.flatMap { take in
        let first = [LimitDecision.refused(retryAfter: .milliseconds(Int(take.keys[0]) ?? 0))]
        return first + take.followers.map { .refused(retryAfter: .milliseconds(Int($0.keys[0]) ?? 0)) }
      }
    }
    await withTaskGroup(of: Void.self) { group in
      for number in stride(from: 0, to: 3000, by: 10) {
        group.addTask {
          let keys = (number...number + 4).map(String.init)
          let charges = keys.map { _ in (amount: 1.0, bucket: bucket) }
          // Two stand or fall together, three follow; and then one alone.
          let chain = GatheredTakes.Take(keys: keys, charges: charges, following: 3)
          #expect(chain.together.keys == Array(keys.prefix(2)) && chain.decisionCount == 4)
          let decisions = await takes.decide([chain, Self.take("\(number + 5)")])
          let expected = [number, number + 2, number + 3, number + 4, number + 5]
          #expect(decisions == expected.map { .refused(retryAfter: .milliseconds($0)) })
        }
      }
    }
    #expect(judge.withLock { $0.reduce(0, +) } == 600)
    // A script has 64 decisions at most.
    #expect(judge.withLock { $0.allSatisfy { $0 <= 32 } })
  }

  @Test func `without an answer nobody is decided on, and the next are judged again`() async {
    let answers = Mutex([nil, [], [.allowed]] as [[LimitDecision]?])
    let takes = GatheredTakes(patience: .seconds(600)) { _ in answers.withLock { $0.removeFirst() } }
    var decisions: [LimitDecision?] = []
    for _ in 0..<3 { decisions.append(await takes.decide([Self.take("key")])[0]) }
    #expect(decisions == [nil, nil, .allowed])
  }

  @Test func `several of one caller are judged together, and answered when the last one is`() async {
    let sizes = Mutex<[Int]>([])
    let takes = GatheredTakes(patience: .seconds(600)) { takes in
      sizes.withLock { $0.append(takes.count) }
      return takes.map { .refused(retryAfter: .milliseconds(Int($0.keys[0]) ?? 0)) }
    }
    let decisions = await takes.decide((0..<100).map { Self.take("\($0)") })
    #expect(decisions == (0..<100).map { .refused(retryAfter: .milliseconds($0)) })
    #expect(sizes.withLock { $0 } == [64, 36])
  }

  /// A node of a cluster does not answer.
  @Test func `a script that is held up holds up no charges of another lane`() async throws {
    let gate = Gate()
    let takes = GatheredTakes(lanes: 2, by: { $0.keys[0] == "held" ? 1 : 0 }, patience: .seconds(600)) { takes in
      if takes[0].keys[0] == "held" { await gate.wait() }
      return takes.map { _ in .allowed }
    }
    async let held = takes.decide([Self.take("held")])
    for number in 0..<100 { #expect(await takes.decide([Self.take("\(number)")]) == [.allowed]) }
    // A caller of both waits for both, and for each alone.
    async let both = takes.decide([Self.take("1"), Self.take("held"), Self.take("2")])
    for number in 0..<100 { #expect(await takes.decide([Self.take("\(number)")]) == [.allowed]) }
    gate.open()
    #expect(await held == [.allowed])
    #expect(await both == [.allowed, .allowed, .allowed])
  }
}
