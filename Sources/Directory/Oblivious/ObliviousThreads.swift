import NIOCore
import RelayWork
import Synchronization

/// The threads on which this process computes with the key: some of its own, so that nothing else waits for them.
///
/// Clients' requests go before the contacts that need an output; those have a turn now and then all the same.
final class ObliviousThreads: Sendable {
  /// How many compute at once.
  let count: Int
  private let threads: BlockingThreads
  private let turns: RankedTurns

  init(_ count: Int = max(1, System.coreCount / 2)) {
    self.count = count
    threads = BlockingThreads(count)
    turns = RankedTurns(count)
  }

  /// Runs `work`, which should take tenths of a second at most, to its end, also when the task is cancelled.
  /// - Returns: nil, with nothing done, when the process is ending.
  func run<Value: Sendable>(
    _ rank: RankedTurns.Rank, _ work: @escaping @Sendable () -> Value
  ) async -> Value? {
    await turns.take(rank)
    defer { turns.giveBack() }
    return await threads.run(work)
  }
}

/// Gives a fixed number of turns at a time. If none is free, a caller waits, in order of arrival. The callers bound
/// how many may wait.
final class RankedTurns: Sendable {
  enum Rank: Sendable {
    case first
    /// After all of `first`, but for one turn in `passedMax + 1`.
    case later
  }

  private struct State {
    var free: Int
    var first: [CheckedContinuation<Void, Never>] = []
    var later: [CheckedContinuation<Void, Never>] = []
    /// How many turns of `first` have gone before the oldest of `later`.
    var passed = 0

    mutating func next() -> CheckedContinuation<Void, Never>? {
      if !first.isEmpty, later.isEmpty || passed < passedMax {
        passed = later.isEmpty ? 0 : passed + 1
        return first.removeFirst()
      }
      passed = 0
      guard later.isEmpty else { return later.removeFirst() }
      free += 1
      return nil
    }
  }

  private static let passedMax = 8
  private let state: Mutex<State>

  init(_ count: Int) { state = Mutex(State(free: max(1, count))) }

  func take(_ rank: Rank = .first) async {
    await withCheckedContinuation { turn in
      let isMine = state.withLock { state in
        guard state.free == 0 else {
          state.free -= 1
          return true
        }
        switch rank {
        case .first: state.first.append(turn)
        case .later: state.later.append(turn)
        }
        return false
      }
      if isMine { turn.resume() }
    }
  }

  /// How many wait.
  var waiting: Int { state.withLock { $0.first.count + $0.later.count } }

  func giveBack() { state.withLock { $0.next() }?.resume() }
}
