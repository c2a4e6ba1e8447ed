import RelayCore
import Synchronization

/// Has charges that arrive while others are at Redis go there together: a script costs Redis, and both ends of the
/// connection, nearly as much for one charge as for dozens. A lone charge waits for nothing.
///
/// One script is under way at a time. Each charge is judged by itself, in the order of arrival.
final class GatheredTakes: Sendable {
  /// One charge of one bucket or several, all or none.
  struct Take: Sendable {
    let keys: [String]
    let charges: [(amount: Double, bucket: Bucket)]
  }

  /// Who waits for several decisions, and has them when the last one is there.
  private final class Caller: Sendable {
    private let state: Mutex<(decisions: [LimitDecision?], missing: Int)>
    private let continuation: CheckedContinuation<[LimitDecision?], Never>

    init(count: Int, _ continuation: CheckedContinuation<[LimitDecision?], Never>) {
      state = Mutex((Array(repeating: nil, count: count), count))
      self.continuation = continuation
    }

    func decided(_ decision: LimitDecision?, at place: Int) {
      let all = state.withLock { state -> [LimitDecision?]? in
        state.decisions[place] = decision
        state.missing -= 1
        return state.missing == 0 ? state.decisions : nil
      }
      if let all { continuation.resume(returning: all) }
    }
  }

  private struct Waiting {
    let take: Take
    let caller: Caller
    let place: Int
  }

  private struct State {
    var waiting: [Waiting] = []
    var isUnderWay = false
  }

  private let state = Mutex(State())
  private let judge: @Sendable ([Take]) async -> [LimitDecision]?

  /// - Parameter judge: is given 1 to `takesMax` charges; never called twice at once. Returns a decision for each, or nil when
  ///   Redis gives none.
  init(judge: @escaping @Sendable ([Take]) async -> [LimitDecision]?) { self.judge = judge }

  /// - Parameter takes: one at least.
  /// - Returns: for each its decision; nil when Redis gives none, or too much waits for it: then the process decides by
  ///   itself.
  func decide(_ takes: [Take]) async -> [LimitDecision?] {
    await withCheckedContinuation { continuation in
      let caller = Caller(count: takes.count, continuation)
      let (isTaken, isFirst) = state.withLock { state in
        guard state.waiting.count + takes.count <= Self.waitingMax else { return (false, false) }
        for (place, take) in takes.enumerated() {
          state.waiting.append(Waiting(take: take, caller: caller, place: place))
        }
        defer { state.isUnderWay = true }
        return (true, !state.isUnderWay)
      }
      if !isTaken { for place in takes.indices { caller.decided(nil, at: place) } }
      if isFirst { RequestID.ofNobody { await self.judgeUntilEmpty() } }
    }
  }

  /// How many wait for the script behind the one that is under way.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  private func judgeUntilEmpty() async {
    while let batch = nextBatch() {
      let decisions = await judge(batch.map(\.take))
      for (index, waiting) in batch.enumerated() {
        waiting.caller.decided(
          decisions.flatMap { index < $0.count ? $0[index] : nil }, at: waiting.place)
      }
    }
  }

  /// - Returns: nil when nothing waits: the next to come is then the first again.
  private func nextBatch() -> [Waiting]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.isUnderWay = false
        return nil
      }
      if state.waiting.count <= Self.takesMax {
        defer { state.waiting = [] }
        return state.waiting
      }
      defer { state.waiting.removeFirst(Self.takesMax) }
      return Array(state.waiting.prefix(Self.takesMax))
    }
  }

  /// The charges of one script. Redis does nothing else for its some hundred microseconds.
  private static let takesMax = 64
  /// More than as many requests are not served at a time.
  private static let waitingMax = 10_000
}
