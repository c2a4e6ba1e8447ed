import Synchronization

/// Those who wait until the feed has been read to its end by a reading that began after they asked.
final class CatchUps: Sendable {
  private struct Waiter {
    let continuation: CheckedContinuation<Void, Never>
    let timer: Task<Void, Never>

    func end() {
      timer.cancel()
      continuation.resume()
    }
  }

  private struct State {
    /// By number, in order of arrival.
    var waiting: [UInt64: Waiter] = [:]
    var last: UInt64 = 0
  }

  private let state = Mutex(State())

  /// - Parameters:
  ///   - limit: how long at most; a cancelled task does not wait.
  ///   - began: called when the caller waits.
  func wait(atMost limit: Duration, _ began: @Sendable () -> Void) async {
    let number = state.withLock { state in
      state.last += 1
      return state.last
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        state.withLock { state in
          let timer = Task {
            do { try await Task.sleep(for: limit) } catch { return }
            self.release(number)
          }
          state.waiting[number] = Waiter(continuation: continuation, timer: timer)
        }
        // Cancelled before there was anybody to release.
        if Task.isCancelled { release(number) }
        began()
      }
    } onCancel: {
      release(number)
    }
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
    for waiter in done.values { waiter.end() }
  }

  private func release(_ number: UInt64) { state.withLock { $0.waiting.removeValue(forKey: number) }?.end() }
}
