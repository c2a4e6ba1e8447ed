import Push
import Synchronization

/// Sees to it that a push is under way once, and is not sent again when it is done (reference 12).
///
/// Of one process; what others do stands on the `PushBoard`.
final class OutcomeBook: Sendable {
  enum Claim: Sendable, Equatable {
    /// To be pushed by the caller, who must `settle` it.
    case ours
    case known(DeviceOutcome)
    /// By another request: `outcome(of:)` waits for it.
    case underWay
  }

  private struct State {
    var memory: OutcomeMemory
    /// Who waits, by number. Bounded by the requests that are open.
    var underWay: [PushIdentity: [UInt64: CheckedContinuation<DeviceOutcome?, Never>]] = [:]
    var lastWaiter: UInt64 = 0
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
      state.underWay[push] = [:]
      return .ours
    }
  }

  /// What failed is not remembered, and may be tried again.
  /// - Parameter outcome: nil when it was given up: whoever waits for it may claim it.
  func settle(_ push: PushIdentity, _ outcome: DeviceOutcome?) {
    let now = now()
    let waiters = state.withLock { state in
      switch outcome {
      case .served, .dropped: state.memory.remember(.served, of: push, now: now)
      case .rejected: state.memory.remember(.rejected, of: push, now: now)
      case .failed, nil: break
      }
      return state.underWay.removeValue(forKey: push) ?? [:]
    }
    for waiter in waiters.values { waiter.resume(returning: outcome) }
  }

  /// Waits until a push that is under way is settled.
  /// - Returns: nil when it is not under way any more, was given up, and when the task is cancelled.
  func outcome(of push: PushIdentity) async -> DeviceOutcome? {
    let number = state.withLock { state in
      state.lastWaiter += 1
      return state.lastWaiter
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let waits = state.withLock { state in
          guard state.underWay[push] != nil else { return false }
          state.underWay[push]?[number] = continuation
          return true
        }
        if !waits { return continuation.resume(returning: nil) }
        // The handler may have come before there was anything to give up.
        if Task.isCancelled { giveUp(push, number) }
      }
    } onCancel: {
      giveUp(push, number)
    }
  }

  private func giveUp(_ push: PushIdentity, _ number: UInt64) {
    let waiter = state.withLock { $0.underWay[push]?.removeValue(forKey: number) }
    waiter?.resume(returning: nil)
  }
}

extension PushReason {
  static let remembered = PushReason(.target, "remembered")
}
