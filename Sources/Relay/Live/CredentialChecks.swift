import DequeModule
import RelayCore
import RelayWork
import Synchronization

/// Looks again whether those that are connected still may be: each in its turn, many together, since their accounts are
/// read in one statement.
///
/// A session waits here once at most, however often it is named: its check, when it comes, sees all that was changed
/// before.
final class CredentialChecks<Session: AnyObject & Sendable>: Sendable {
  private struct State {
    var waiting: Deque<Session> = []
    /// The ids of the sessions in `waiting`. A session whose check has begun is not among them: a change since then
    /// has it checked again.
    var ids: Set<ObjectIdentifier> = []
    var underWay = 0
  }

  private let state = Mutex(State())
  private let batchMax: Int
  private let atOnce: Int
  private let waitingMax: Int
  private let check: @Sendable ([Session]) async -> Void

  /// - Parameters:
  ///   - batchMax: sessions of one check.
  ///   - atOnce: checks under way.
  ///   - waitingMax: by default more than are connected to one process.
  ///   - check: is given 1 to `batchMax` sessions.
  init(
    batchMax: Int = 400, atOnce: Int = 2, waitingMax: Int = 200_000,
    check: @escaping @Sendable ([Session]) async -> Void
  ) {
    self.batchMax = batchMax
    self.atOnce = atOnce
    self.waitingMax = waitingMax
    self.check = check
  }

  /// - Returns: those that there is no room for.
  func add(_ sessions: [Session]) -> [Session] {
    let (starting, refused) = state.withLock { state in
      var refused: [Session] = []
      for session in sessions where !state.ids.contains(ObjectIdentifier(session)) {
        guard state.waiting.count < waitingMax else {
          refused.append(session)
          continue
        }
        state.waiting.append(session)
        state.ids.insert(ObjectIdentifier(session))
      }
      let batches = (state.waiting.count + batchMax - 1) / batchMax
      let starting = max(0, min(atOnce - state.underWay, batches))
      state.underWay += starting
      return (starting, refused)
    }
    for _ in 0..<starting { Task.ofNobody { await self.checkUntilEmpty() } }
    return refused
  }

  private func checkUntilEmpty() async {
    while let sessions = next() { await check(sessions) }
  }

  private func next() -> [Session]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.underWay -= 1
        return nil
      }
      let sessions = Array(state.waiting.prefix(batchMax))
      state.waiting.removeFirst(sessions.count)
      for session in sessions { state.ids.remove(ObjectIdentifier(session)) }
      return sessions
    }
  }
}
