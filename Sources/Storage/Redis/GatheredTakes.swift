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
    fileprivate let finish: CheckedContinuation<LimitDecision?, Never>
  }

  private struct State {
    var waiting: [Take] = []
    var isUnderWay = false
  }

  private let state = Mutex(State())
  private let judge: @Sendable ([Take]) async -> [LimitDecision]?

  /// - Parameter judge: is given 1 to `takesMax` charges; never called twice at once. Returns a decision for each, or nil when
  ///   Redis gives none.
  init(judge: @escaping @Sendable ([Take]) async -> [LimitDecision]?) { self.judge = judge }

  /// - Returns: nil when Redis gives no decision, or too much waits for it: then the process decides by itself.
  func decide(_ keys: [String], _ charges: [(amount: Double, bucket: Bucket)]) async -> LimitDecision? {
    await withCheckedContinuation { continuation in
      let take = Take(keys: keys, charges: charges, finish: continuation)
      let (isTaken, isFirst) = state.withLock { state in
        guard state.waiting.count < Self.waitingMax else { return (false, false) }
        state.waiting.append(take)
        defer { state.isUnderWay = true }
        return (true, !state.isUnderWay)
      }
      if !isTaken { continuation.resume(returning: nil) }
      if isFirst { Task { await judgeUntilEmpty() } }
    }
  }

  /// How many wait for the script behind the one that is under way.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  private func judgeUntilEmpty() async {
    while let batch = nextBatch() {
      let decisions = await judge(batch)
      for (index, take) in batch.enumerated() {
        take.finish.resume(returning: decisions.flatMap { index < $0.count ? $0[index] : nil })
      }
    }
  }

  /// - Returns: nil when nothing waits: the next to come is then the first again.
  private func nextBatch() -> [Take]? {
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
