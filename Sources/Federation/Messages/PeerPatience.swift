import RelayCore
import RelayWork
import Synchronization

/// How long we wait for one peer before messages for it are held instead (docs/federation.md, "A peer that keeps us
/// waiting").
///
/// A request goes on after patience has ended. Until it is over, the peer counts as one that keeps us waiting, and
/// nothing more has to wait behind it.
final class PeerPatience: Sendable {
  private struct Wait {
    let deadline: ContinuousClock.Instant
    let expire: @Sendable () -> Void
  }
  private struct State {
    var waits: [UInt64: Wait] = [:]
    var nextID: UInt64 = 0
    /// The number of waits that have outlasted patience and are not over.
    var overdue = 0
    /// Whether a task looks after the deadlines.
    var isWatched = false
  }

  private let patience: Duration
  private let state = Mutex(State())

  init(_ patience: Duration) { self.patience = patience }

  /// Whether the peer keeps us waiting.
  var isExhausted: Bool { state.withLock { $0.overdue > 0 } }

  /// Runs `work` to its end, in a task of its own.
  /// - Returns: nil when patience ended first.
  func wait<Value: Sendable>(for work: @escaping @Sendable () async -> Value) async -> Value? {
    await withCheckedContinuation { continuation in
      let wait = Wait(deadline: .now + patience, expire: { continuation.resume(returning: nil) })
      let (id, isToWatch) = state.withLock { state in
        let id = state.nextID
        state.nextID += 1
        state.waits[id] = wait
        defer { state.isWatched = true }
        return (id, !state.isWatched)
      }
      if isToWatch { Task.ofNobody { await self.watch() } }
      Task { [self] in
        let value = await work()
        if end(id) { continuation.resume(returning: value) }
      }
    }
  }

  /// - Returns: whether it was over in time.
  private func end(_ id: UInt64) -> Bool {
    state.withLock { state in
      if state.waits.removeValue(forKey: id) != nil { return true }
      state.overdue -= 1
      return false
    }
  }

  /// Until nothing is waited for. Sleeps until the next deadline that there was at the last look: what comes later has
  /// a later one. So what is over in time, as nearly all is, costs no timer.
  private func watch() async {
    while true {
      let now = ContinuousClock.now
      let (late, next) = state.withLock { state in
        let late = state.waits.filter { $0.value.deadline <= now }
        for id in late.keys { state.waits[id] = nil }
        state.overdue += late.count
        let next = state.waits.values.map(\.deadline).min()
        state.isWatched = next != nil
        return (late, next)
      }
      for (_, wait) in late.sorted(by: { $0.key < $1.key }) { wait.expire() }
      guard let next else { return }
      await Pause.until(next)
    }
  }
}
