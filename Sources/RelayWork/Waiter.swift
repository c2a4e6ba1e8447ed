import Synchronization

/// One who waits for a value that somebody else hands over.
///
/// The value may come before the wait, and is kept until then. The first of three counts: the value, the deadline, or
/// the cancellation of the task that waits.
package final class Waiter<Value: Sendable>: Sendable {
  private enum State {
    case isExpected
    case waits(CheckedContinuation<Value?, Never>)
    case has(Value)
    /// Has its value, or has given up.
    case isGone
  }

  private let state = Mutex(State.isExpected)

  package init() {}

  /// Hands the value over. Does nothing when another came before, or the waiter has given up.
  /// - Returns: whether it is taken.
  @discardableResult
  package func end(with value: Value) -> Bool {
    let (waiting, isTaken) = state.withLock { state -> (CheckedContinuation<Value?, Never>?, Bool) in
      switch state {
      case .isExpected:
        state = .has(value)
        return (nil, true)
      case .waits(let continuation):
        state = .isGone
        return (continuation, true)
      case .has, .isGone: return (nil, false)
      }
    }
    waiting?.resume(returning: value)
    return isTaken
  }

  /// To be called once.
  /// - Returns: nil when `deadline` or the task's cancellation came first.
  @discardableResult
  package func value(until deadline: ContinuousClock.Instant) async -> Value? {
    await value(until: deadline, on: ContinuousClock())
  }

  /// To be called once.
  /// - Returns: nil when `deadline` or the task's cancellation came first.
  @discardableResult
  package func value<C: Clock<Duration>>(until deadline: C.Instant, on clock: C) async -> Value? {
    let countdown = Countdown(until: deadline, on: clock) { self.giveUp() }
    defer { countdown.cancel() }
    return await value()
  }

  /// To be called once.
  /// - Returns: nil when the task was cancelled first.
  @discardableResult
  package func value() async -> Value? {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let known = state.withLock { state -> Value?? in
          switch state {
          case .isExpected:
            state = .waits(continuation)
            return nil
          case .has(let value):
            state = .isGone
            return .some(value)
          case .waits, .isGone: return .some(nil)
          }
        }
        if let known { continuation.resume(returning: known) }
      }
    } onCancel: {
      giveUp()
    }
  }

  private func giveUp() {
    let waiting = state.withLock { state -> CheckedContinuation<Value?, Never>? in
      // A value that is there already is told all the same.
      if case .has = state { return nil }
      defer { state = .isGone }
      guard case .waits(let continuation) = state else { return nil }
      return continuation
    }
    waiting?.resume(returning: nil)
  }
}

/// The waiters for one thing: a part of the state that an owner keeps under a lock of its own. The owner takes them
/// under the lock and hands the value over behind it.
package struct Waiters<Value: Sendable>: Sendable {
  private var waiting: [ObjectIdentifier: Waiter<Value>] = [:]

  package init() {}

  package var isEmpty: Bool { waiting.isEmpty }

  @discardableResult
  package mutating func add(_ waiter: Waiter<Value> = Waiter()) -> Waiter<Value> {
    waiting[ObjectIdentifier(waiter)] = waiter
    return waiter
  }

  /// One that has given up, or was told.
  package mutating func remove(_ waiter: Waiter<Value>) { waiting[ObjectIdentifier(waiter)] = nil }

  /// - Returns: all, in no order; none are left.
  package mutating func takeAll() -> [Waiter<Value>] {
    defer { waiting = [:] }
    return Array(waiting.values)
  }
}

extension Sequence {
  /// Hands `value` to each.
  /// - Returns: whether anybody took it.
  @discardableResult
  package func end<Value>(with value: Value) -> Bool where Element == Waiter<Value> {
    reduce(false) { $1.end(with: value) || $0 }
  }
}

/// Bounds what has no bound of its own, such as the system's name look-up.
package enum TimeLimit {
  /// - Returns: what `work` returns; nil when it takes longer than `limit`, or the caller is cancelled: `work` is
  ///   cancelled then, and goes on to its end without anybody who waits for it.
  package static func run<Value: Sendable>(
    _ limit: Duration, on clock: some Clock<Duration> = ContinuousClock(),
    _ work: @escaping @Sendable () async -> Value
  ) async -> Value? {
    let waiter = Waiter<Value>()
    let deadline = clock.now.advanced(by: limit)
    let task = Task { waiter.end(with: await work()) }
    defer { task.cancel() }
    return await waiter.value(until: deadline, on: clock)
  }
}
