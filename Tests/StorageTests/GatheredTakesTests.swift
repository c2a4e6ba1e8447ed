import RelayCore
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import Storage

/// Holds whoever comes until it is opened.
private final class Gate: Sendable {
  private let state = Mutex((isOpen: false, waiting: [CheckedContinuation<Void, Never>]()))

  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.waiting.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }

  func open() {
    let waiting = state.withLock { state in
      defer { state = (true, []) }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }
}

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
    let takes = GatheredTakes(judge: judge.judge)
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

  @Test func `without an answer nobody is decided on, and the next are judged again`() async {
    let answers = Mutex([nil, [], [.allowed]] as [[LimitDecision]?])
    let takes = GatheredTakes { _ in answers.withLock { $0.removeFirst() } }
    var decisions: [LimitDecision?] = []
    for _ in 0..<3 { decisions.append(await takes.decide([Self.take("key")])[0]) }
    #expect(decisions == [nil, nil, .allowed])
  }

  @Test func `several of one caller are judged together, and answered when the last one is`() async {
    let sizes = Mutex<[Int]>([])
    let takes = GatheredTakes { takes in
      sizes.withLock { $0.append(takes.count) }
      return takes.map { .refused(retryAfter: .milliseconds(Int($0.keys[0]) ?? 0)) }
    }
    let decisions = await takes.decide((0..<100).map { Self.take("\($0)") })
    #expect(decisions == (0..<100).map { .refused(retryAfter: .milliseconds($0)) })
    #expect(sizes.withLock { $0 } == [64, 36])
  }
}
