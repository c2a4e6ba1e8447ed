import Synchronization

/// Does something once a time has passed, in a task of its own, unless it is cancelled before.
package struct Countdown: Sendable {
  private let task: Task<Void, Never>

  package init(
    of duration: Duration, on clock: some Clock<Duration> = ContinuousClock(),
    _ action: @escaping @Sendable () async -> Void
  ) {
    self.init(until: clock.now.advanced(by: duration), on: clock, action)
  }

  package init<C: Clock<Duration>>(
    until deadline: C.Instant, on clock: C, _ action: @escaping @Sendable () async -> Void
  ) {
    task = Task {
      if await Pause.until(deadline, on: clock) { await action() }
    }
  }

  /// Prevents the action, unless it has begun; one that has is told by its task's cancellation.
  package func cancel() { task.cancel() }
}

/// As `Countdown`, for many of which nearly all end before their time has passed: one timer serves all of them, where a
/// timer for each would cost more than the work.
package final class SharedCountdown: Sendable {
  package typealias Ticket = UInt64

  private struct State {
    var running: [Ticket: (deadline: ContinuousClock.Instant, action: @Sendable () -> Void)] = [:]
    var lastTicket: Ticket = 0
    /// Whether a task looks after the deadlines.
    var isWatched = false
  }

  private let duration: Duration
  private let state = Mutex(State())

  package init(of duration: Duration) { self.duration = duration }

  /// - Parameter action: done once, unless `end` comes before.
  package func begin(_ action: @escaping @Sendable () -> Void) -> Ticket {
    let deadline = ContinuousClock.now + duration
    let (ticket, isToWatch) = state.withLock { state in
      state.lastTicket += 1
      state.running[state.lastTicket] = (deadline, action)
      defer { state.isWatched = true }
      return (state.lastTicket, !state.isWatched)
    }
    if isToWatch { Task.ofNobody { await self.watch() } }
    return ticket
  }

  /// - Returns: whether the action is prevented; else it was done, or is about to be.
  @discardableResult
  package func end(_ ticket: Ticket) -> Bool { state.withLock { $0.running.removeValue(forKey: ticket) != nil } }

  /// Until nothing runs. Sleeps until the next deadline that there was at the last look: what comes later has a later
  /// one.
  private func watch() async {
    while true {
      let now = ContinuousClock.now
      let (late, next) = state.withLock { state in
        let late = state.running.filter { $0.value.deadline <= now }
        for ticket in late.keys { state.running[ticket] = nil }
        let next = state.running.values.map(\.deadline).min()
        state.isWatched = next != nil
        return (late, next)
      }
      for (_, over) in late.sorted(by: { $0.key < $1.key }) { over.action() }
      guard let next else { return }
      await Pause.until(next)
    }
  }
}
