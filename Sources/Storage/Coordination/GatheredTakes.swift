import RelayCore
import RelayWork
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

    func isOfOneSlot(_ commands: RedisCommands) -> Bool {
      guard keys.count > 1 else { return true }
      let first = commands.slot(of: keys[0])
      return keys.dropFirst().allSatisfy { commands.slot(of: $0) == first }
    }

    /// By the slots of the keys, in the order in which the slots come first.
    func parts(by slot: (String) -> Int) -> [Take] {
      var slots: [Int] = []
      var places: [Int: [Int]] = [:]
      for (place, key) in keys.enumerated() {
        let slot = slot(key)
        if places[slot] == nil { slots.append(slot) }
        places[slot, default: []].append(place)
      }
      return slots.map { slot in
        let places = places[slot] ?? []
        return Take(keys: places.map { keys[$0] }, charges: places.map { charges[$0] })
      }
    }

    /// Gives back what this charges.
    var reversed: Take { Take(keys: keys, charges: charges.map { (-$0.amount, $0.bucket) }) }
  }

  /// A caller that waits for several decisions, and has them when the last one is there.
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

  /// The charges of one script bounded, since Redis does nothing else for its some hundred microseconds; and what
  /// waits, since more than as many requests are not served at a time.
  private let queue = Mutex(
    BatchQueue<Waiting>(bounds: .init(batch: .init(items: 64), waiting: .init(items: 10_000))) { _ in .init(items: 1) })
  private let judge: @Sendable ([Take]) async -> [LimitDecision?]?

  /// - Parameter judge: is given 1 to 64 charges; never called twice at once. Returns a decision for each, nil
  ///   where Redis gives none.
  init(judge: @escaping @Sendable ([Take]) async -> [LimitDecision?]?) { self.judge = judge }

  /// - Parameter takes: one at least.
  /// - Returns: for each its decision; nil when Redis gives none, or too much waits for it: then the process decides by
  ///   itself.
  func decide(_ takes: [Take]) async -> [LimitDecision?] {
    await withCheckedContinuation { continuation in
      let caller = Caller(count: takes.count, continuation)
      let waiting = takes.enumerated().map { Waiting(take: $1, caller: caller, place: $0) }
      switch queue.withLock({ $0.admit(contentsOf: waiting) }) {
      case .full: for place in takes.indices { caller.decided(nil, at: place) }
      case .waits: break
      case .isFirst: Task.ofNobody { await self.judgeUntilEmpty() }
      }
    }
  }

  /// How many wait for the script behind the one that is under way.
  var waitingCount: Int { queue.withLock { $0.waiting.items } }

  private func judgeUntilEmpty() async {
    while let batch = queue.withLock({ $0.next() }) {
      let decisions = await judge(batch.map(\.take))
      for (index, waiting) in batch.enumerated() {
        waiting.caller.decided(
          decisions.flatMap { index < $0.count ? $0[index] : nil }, at: waiting.place)
      }
    }
  }
}
