/// Waiting for time to pass. Nothing else in the relay's sources sleeps.
package enum Pause {
  /// Waits for `duration`.
  /// - Returns: whether it has passed; false when the task was cancelled before.
  @discardableResult
  package static func `for`(
    _ duration: Duration, on clock: some Clock<Duration> = ContinuousClock()
  ) async -> Bool {
    await until(clock.now.advanced(by: duration), on: clock)
  }

  /// Waits until `deadline`, which may have passed.
  /// - Returns: whether it has come; false when the task was cancelled before.
  @discardableResult
  package static func until(_ deadline: ContinuousClock.Instant) async -> Bool {
    await until(deadline, on: ContinuousClock())
  }

  @discardableResult
  package static func until<C: Clock<Duration>>(_ deadline: C.Instant, on clock: C) async -> Bool {
    // `Clock.sleep` throws for cancellation alone.
    do { try await Task.sleep(until: deadline, clock: clock) } catch { return false }
    return true
  }

  /// Returns when the task is cancelled, and never before.
  package static func untilCancelled() async {
    await Waiter<Void>().value()
  }

  /// Asks `condition` at once, and again after each `interval`, until it holds.
  /// - Returns: whether it held; false when `deadline` had passed, or the task was cancelled.
  /// - Throws: as `condition`, at once.
  @discardableResult
  package static func poll<Failure: Error>(
    every interval: Duration, until deadline: ContinuousClock.Instant, isolation: isolated (any Actor)? = #isolation,
    _ condition: () async throws(Failure) -> Bool
  ) async throws(Failure) -> Bool {
    try await poll(every: interval, until: deadline, on: ContinuousClock(), condition)
  }

  @discardableResult
  package static func poll<C: Clock<Duration>, Failure: Error>(
    every interval: Duration, until deadline: C.Instant, on clock: C, isolation: isolated (any Actor)? = #isolation,
    _ condition: () async throws(Failure) -> Bool
  ) async throws(Failure) -> Bool {
    while try await !condition() {
      guard clock.now < deadline, await Pause.for(interval, on: clock) else { return false }
    }
    return true
  }
}
