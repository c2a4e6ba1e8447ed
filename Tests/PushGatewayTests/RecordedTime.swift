import Push
import Synchronization

/// Time in which every wait is over at once, and noted.
final class RecordedTime: Sendable {
  private struct State {
    var passed = Duration.zero
    var waits: [Duration] = []
  }
  private let state = Mutex(State())

  var waits: [Duration] { state.withLock { $0.waits } }

  var time: PushTime {
    PushTime(
      now: { .now + self.state.withLock { $0.passed } },
      sleep: { duration in
        try Task.checkCancellation()
        self.state.withLock { state in
          state.passed += duration
          state.waits.append(duration)
        }
      })
  }
}
