/// Does something once a time has passed, in a task of its own, unless it is cancelled before.
package struct Countdown: Sendable {
  private let task: Task<Void, Never>

  package init(
    of duration: Duration, on clock: some Clock<Duration> = ContinuousClock(),
    _ action: @escaping @Sendable () async -> Void
  ) {
    self.init(until: clock.now.advanced(by: duration), on: clock, action)
  }

  package init(until deadline: ContinuousClock.Instant, _ action: @escaping @Sendable () async -> Void) {
    self.init(until: deadline, on: ContinuousClock(), action)
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
