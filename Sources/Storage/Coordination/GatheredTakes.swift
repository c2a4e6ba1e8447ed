import RelayCore
import RelayWork
import Synchronization

/// Has charges that arrive while others are at Redis go there together: a script costs Redis, and both ends of the
/// connection, nearly as much for one charge as for dozens. A lone charge waits for nothing.
///
/// One script is under way at a time; in a cluster one for each of some ranges of slots, so that a node that does not
/// answer holds up no charges of the others'. Each charge is judged by itself, in the order of arrival. Behind a script
/// that took longer than `patience`, a charge that has waited for as long is not sent any more: a Redis that answers
/// slowly would hold requests up more than one that is gone.
final class GatheredTakes: Sendable {
  /// One charge of one bucket or several, all or none; and behind them others, each by itself.
  struct Take: Sendable {
    let keys: [String]
    let charges: [(amount: Double, bucket: Bucket)]
    /// How many of the charges, the last ones, are made each by itself, once those before them are allowed. One at
    /// least comes before them.
    var following = 0

    /// One for the charges that stand or fall together, then one for each that follows.
    var decisionCount: Int { 1 + following }
    /// The charges that stand or fall together.
    var together: Take { Take(keys: keys.dropLast(following), charges: charges.dropLast(following)) }
    /// Each charge that follows, as a take.
    var followers: [Take] {
      keys.indices.suffix(following).map { Take(keys: [keys[$0]], charges: [charges[$0]]) }
    }

    func isOfOneSlot(_ commands: RedisCommands) -> Bool {
      guard keys.count > 1 else { return true }
      let first = commands.slot(of: keys[0])
      return keys.dropFirst().allSatisfy { commands.slot(of: $0) == first }
    }

    /// By the slots of the keys, in the order in which the slots come first; of a take that nothing follows.
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

    /// Gives back what this charges; of a take that nothing follows.
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
    /// The index of its first decision among the caller's.
    let place: Int
    let arrived: ContinuousClock.Instant

    func end(with decisions: ArraySlice<LimitDecision?>) {
      var rest = decisions
      for step in 0..<take.decisionCount { caller.decided(rest.popFirst() ?? nil, at: place + step) }
    }
  }

  /// The charges of one script bounded, since Redis does nothing else for its some hundred microseconds; and what
  /// waits, since more than as many requests are not served at a time.
  private final class Lane: Sendable {
    let queue: Mutex<BatchQueue<Waiting>>

    init(waitingMax: Int) {
      queue = Mutex(
        BatchQueue(bounds: .init(batch: .init(items: 64), waiting: .init(items: waitingMax))) {
          .init(items: $0.take.decisionCount)
        })
    }
  }

  private let lanes: [Lane]
  private let lane: @Sendable (Take) -> Int
  private let patience: Duration
  private let now: @Sendable () -> ContinuousClock.Instant
  private let judge: @Sendable ([Take]) async -> [LimitDecision?]?

  /// - Parameters:
  ///   - lanes: 1 or more.
  ///   - lane: of a take, below `lanes`.
  ///   - patience: far longer than charges wait for a Redis that keeps up.
  ///   - judge: is given takes of 1 to 64 decisions, or one take of more; never called twice at once for
  ///     a lane. Returns the decisions of all, one after the other; nil where Redis gives none.
  init(
    lanes: Int = 1, by lane: @escaping @Sendable (Take) -> Int = { _ in 0 }, patience: Duration,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    judge: @escaping @Sendable ([Take]) async -> [LimitDecision?]?
  ) {
    self.lanes = (0..<lanes).map { _ in Lane(waitingMax: max(1000, 10_000 / lanes)) }
    self.lane = lane
    self.patience = patience
    self.now = now
    self.judge = judge
  }

  /// - Parameter takes: one at least.
  /// - Returns: the decisions of all, one after the other; nil when Redis gives none, or too much or for too long waits
  ///   for it: then the process decides by itself.
  func decide(_ takes: [Take]) async -> [LimitDecision?] {
    await withCheckedContinuation { continuation in
      let count = takes.reduce(0) { $0 + $1.decisionCount }
      let caller = Caller(count: count, continuation)
      let now = now()
      var place = 0
      var waiting: [Int: [Waiting]] = [:]
      for take in takes {
        waiting[lane(take), default: []].append(Waiting(take: take, caller: caller, place: place, arrived: now))
        place += take.decisionCount
      }
      for (number, waiting) in waiting { admit(waiting, to: lanes[number]) }
    }
  }

  private func admit(_ waiting: [Waiting], to lane: Lane) {
    switch lane.queue.withLock({ $0.admit(contentsOf: waiting) }) {
    case .full: for one in waiting { one.end(with: []) }
    case .waits: break
    case .isFirst: Task.ofNobody { await self.judgeUntilEmpty(lane) }
    }
  }

  /// How many wait for the scripts behind those that are under way.
  var waitingCount: Int { lanes.reduce(0) { $0 + $1.queue.withLock { $0.waiting.items } } }

  private func judgeUntilEmpty(_ lane: Lane) async {
    var isSlow = false
    while let batch = lane.queue.withLock({ $0.next() }) {
      let began = now()
      // In the order of arrival: those that waited too long stand first.
      let late = batch.prefix { isSlow && $0.arrived < began - patience }
      for waiting in late { waiting.end(with: []) }
      let timely = batch.dropFirst(late.count)
      guard !timely.isEmpty else { continue }
      var rest = await judge(timely.map(\.take))?[...] ?? []
      isSlow = now() - began > patience
      for waiting in timely {
        waiting.end(with: rest.prefix(waiting.take.decisionCount))
        rest = rest.dropFirst(waiting.take.decisionCount)
      }
    }
  }
}
