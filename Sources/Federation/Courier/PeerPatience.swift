import Synchronization

/// How long we wait for one peer before messages for it are held instead (docs/federation.md, "A peer that keeps us
/// waiting").
///
/// What is waited for goes on when patience has ended, and until it is over the peer counts as one that keeps us waiting:
/// nothing more has to wait behind it.
final class PeerPatience: Sendable {
  /// What was not over when patience had ended, and still is not.
  private let overdue = Mutex(0)

  /// Whether the peer keeps us waiting.
  var isExhausted: Bool { overdue.withLock { $0 > 0 } }

  /// Runs `work` to its end.
  /// - Parameter late: is given what came when nobody waited for it any more.
  /// - Returns: nil when `patience` ended first.
  func wait<Value: Sendable>(
    for patience: Duration, _ work: @escaping @Sendable () async -> Value,
    late: @escaping @Sendable (Value) -> Void = { _ in }
  ) async -> Value? {
    let isDecided = Decision()
    return await withCheckedContinuation { continuation in
      let timer = Task { [self] in
        // Cancelled when the work is over: then there is nothing to decide.
        do { try await Task.sleep(for: patience) } catch { return }
        guard isDecided.isFirst(then: { self.overdue.withLock { $0 += 1 } }) else { return }
        continuation.resume(returning: nil)
      }
      Task { [self] in
        let value = await work()
        timer.cancel()
        if isDecided.isFirst() { return continuation.resume(returning: value) }
        overdue.withLock { $0 -= 1 }
        late(value)
      }
    }
  }

  /// Which of two comes first.
  private final class Decision: Sendable {
    private let isMade = Mutex(false)

    /// - Parameter action: done before the other one learns that it is too late.
    func isFirst(then action: () -> Void = {}) -> Bool {
      isMade.withLock { isMade in
        guard !isMade else { return false }
        isMade = true
        action()
        return true
      }
    }
  }
}
