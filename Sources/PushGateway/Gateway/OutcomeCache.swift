import Push
import RelayWork
import Synchronization

/// Sees to it that a push is under way once, and is not sent again when it is done (reference 12).
///
/// Holds the pushes of one process. Pushes of others stand on the `PushBoard`.
final class OutcomeCache: Sendable {
  enum Claim: Sendable, Equatable {
    /// To be pushed by the caller, who must `settle` it.
    case ours
    case known(DeviceOutcome)
    /// By another request: `outcome(of:)` waits for it.
    case underWay
  }

  private struct State {
    var memory: OutcomeMemory
    /// The open requests bound how many wait for each.
    var underWay: [PushIdentity: Waiters<DeviceOutcome?>] = [:]
  }

  private let state: Mutex<State>
  private let now: @Sendable () -> ContinuousClock.Instant

  init(max: Int, now: @escaping @Sendable () -> ContinuousClock.Instant) {
    self.now = now
    state = Mutex(State(memory: OutcomeMemory(max: max, now: now())))
  }

  func claim(_ push: PushIdentity) -> Claim {
    let now = now()
    return state.withLock { state in
      switch state.memory.outcome(of: push, now: now) {
      case .served: return .known(.served)
      case .rejected: return .known(.rejected(.remembered))
      case nil: break
      }
      guard state.underWay[push] == nil else { return .underWay }
      state.underWay[push] = Waiters()
      return .ours
    }
  }

  /// A failure is not remembered, and the push may be tried again.
  /// - Parameter outcome: nil if it was given up: a caller that waits for it may claim it.
  func settle(_ push: PushIdentity, _ outcome: DeviceOutcome?) {
    let now = now()
    let waiters = state.withLock { state -> [Waiter<DeviceOutcome?>] in
      switch outcome {
      case .served, .dropped: state.memory.remember(.served, of: push, now: now)
      case .rejected: state.memory.remember(.rejected, of: push, now: now)
      case .failed, nil: break
      }
      var waiters = state.underWay.removeValue(forKey: push)
      return waiters?.takeAll() ?? []
    }
    waiters.end(with: outcome)
  }

  /// Waits until a push that is under way is settled.
  /// - Returns: nil when it is not under way any more, was given up, and when the task is cancelled.
  func outcome(of push: PushIdentity) async -> DeviceOutcome? {
    guard let waiter = state.withLock({ $0.underWay[push]?.add() }) else { return nil }
    defer { state.withLock { $0.underWay[push]?.remove(waiter) } }
    return await waiter.value() ?? nil
  }
}

extension PushReason {
  static let remembered = PushReason(.target, "remembered")
}
