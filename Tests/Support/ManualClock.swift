import Synchronization

/// A clock that stands until a test moves it on.
package final class ManualClock: Clock, Sendable {
  package struct Instant: InstantProtocol {
    /// Since the clock was made.
    package let offset: Duration
    package init(_ offset: Duration = .zero) { self.offset = offset }
    package func advanced(by duration: Duration) -> Self { Self(offset + duration) }
    package func duration(to other: Self) -> Duration { other.offset - offset }
    package static func < (a: Self, b: Self) -> Bool { a.offset < b.offset }
  }

  private struct Sleeper {
    let deadline: Instant
    let continuation: CheckedContinuation<Void, any Error>
  }

  private struct State {
    var now = Instant()
    var sleepers: [Int: Sleeper] = [:]
    var lastSleeper = 0
  }

  private let state = Mutex(State())

  package init() {}

  package var now: Instant { state.withLock { $0.now } }
  package let minimumResolution = Duration.zero
  /// How many sleep.
  package var sleeperCount: Int { state.withLock { $0.sleepers.count } }

  package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    let number = state.withLock { state in
      state.lastSleeper += 1
      return state.lastSleeper
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isOver = state.withLock { state in
          if state.now >= deadline { return true }
          state.sleepers[number] = Sleeper(deadline: deadline, continuation: continuation)
          return false
        }
        if isOver { continuation.resume() }
        // The handler may have come before there was anybody to wake.
        if Task.isCancelled { cancel(number) }
      }
      try Task.checkCancellation()
    } onCancel: {
      cancel(number)
    }
  }

  /// Moves the clock on, and wakes in their order all whose time has come.
  package func advance(by duration: Duration) {
    let due = state.withLock { state in
      state.now = state.now.advanced(by: duration)
      let due = state.sleepers.filter { $0.value.deadline <= state.now }
      for number in due.keys { state.sleepers[number] = nil }
      return due.sorted { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }
    }
    for (_, sleeper) in due { sleeper.continuation.resume() }
  }

  /// Moves the clock on once `count` sleep: what is to be woken has come so far.
  package func advance(by duration: Duration, whenAsleep count: Int) async throws {
    try await eventually("\(count) sleep") { sleeperCount == count }
    advance(by: duration)
  }

  private func cancel(_ number: Int) {
    state.withLock { $0.sleepers.removeValue(forKey: number) }?.continuation.resume(throwing: CancellationError())
  }
}
