import RelayWork
import Synchronization

/// The callers that wait until a reading that began after they asked has read the feed to its end.
final class CatchUps: Sendable {
  private struct State {
    /// By number, in order of arrival.
    var waiting: [UInt64: Waiter<Void>] = [:]
    var last: UInt64 = 0
  }

  private let state = Mutex(State())

  /// - Parameters:
  ///   - limit: how long at most; a cancelled task does not wait.
  ///   - began: called when the caller waits.
  func wait(atMost limit: Duration, _ began: @Sendable () -> Void) async {
    let waiter = Waiter<Void>()
    let number = state.withLock { state in
      state.last += 1
      state.waiting[state.last] = waiter
      return state.last
    }
    began()
    await waiter.value(until: .now + limit)
    state.withLock { $0.waiting[number] = nil }
  }

  /// A reading begins. - Returns: what to tell `finish`.
  func begin() -> UInt64 { state.withLock { $0.last } }

  /// The reading has ended that began when `begin` returned `number`, and its changes are in the table.
  func finish(_ number: UInt64) {
    let done = state.withLock { state in
      let done = state.waiting.filter { $0.key <= number }
      for number in done.keys { state.waiting[number] = nil }
      return done
    }
    done.values.end(with: ())
  }
}
