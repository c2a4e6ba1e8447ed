import Synchronization

/// How many lines of one kind the log takes, so that what fails a thousand times a second does not flood it.
package final class LineBudget: Sendable {
  private struct State {
    var room: Double
    var last: ContinuousClock.Instant
    var unwritten = 0
  }

  private let atOnce: Double
  private let perSecond: Double
  private let state: Mutex<State>

  package init(atOnce: Int = 50, perSecond: Int = 5, now: ContinuousClock.Instant = .now) {
    self.atOnce = Double(atOnce)
    self.perSecond = Double(perSecond)
    state = Mutex(State(room: Double(atOnce), last: now))
  }

  /// Asked for each line.
  /// - Returns: nil when it is not to be written; else how many before it were not.
  package func take(now: ContinuousClock.Instant = .now) -> Int? {
    state.withLock { state in
      let passed = max(0, (now - state.last) / .seconds(1))
      state.room = min(atOnce, state.room + passed * perSecond)
      state.last = max(state.last, now)
      guard state.room >= 1 else {
        state.unwritten += 1
        return nil
      }
      state.room -= 1
      defer { state.unwritten = 0 }
      return state.unwritten
    }
  }
}
