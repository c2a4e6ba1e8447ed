package import RelayCore
import RelayWork
import Synchronization

/// Accounts whose budget has refused them. For a minute the budget is not asked for anything new. Then it is asked
/// for one request at a time, until it allows one. Contacts that were asked for before go on costing nothing.
///
/// The budget's sketch takes at most one contact in a hundred for one that was asked for before. Without a pause, an
/// account that has spent its budget could ask for contacts one by one, as fast as the bucket allows, and be answered
/// for those. So the budget tells only a few times a minute that something is new.
package final class BudgetPauses: Sendable {
  package enum Admission: Sendable, Equatable {
    /// The budget may be asked; its answer is told by `allowed` or `refused`.
    case open
    /// It may be asked whether all was asked for before: `wereKnown` if so. Else what is left of the pause is to be
    /// waited.
    case knownOnly(rest: Duration)
    case resting(Duration)
  }

  private struct Pause {
    /// When it ends, or has ended.
    var end: ContinuousClock.Instant
    /// How often the budget may still tell that something is new; questions under way are taken for such.
    var tries = BudgetPauses.triesMax
  }

  /// Two generations, the older one at least half a day old when it is forgotten.
  private struct State {
    var pauses: TwoGenerations<AccountNumber, Pause>
    var begun: ContinuousClock.Instant
  }

  /// In a pause, which is a minute. With the question behind it, and at a hundredth of a contact each, they yield 87
  /// contacts a day at most.
  package static let triesMax = 5
  private static let length = Duration.seconds(60)
  private static let generationLife = Duration.seconds(12 * 3600)
  private let state: Mutex<State>

  /// - Parameter capacity: accounts at most; with more, those that were refused longest ago are forgotten.
  package init(capacity: Int = 100_000, now: ContinuousClock.Instant = .now) {
    state = Mutex(State(pauses: TwoGenerations(capacity: capacity), begun: now))
  }

  /// Called before the budget is asked. If the last answer was a refusal, the next pause begins with the question:
  /// only one of many requests at a time gets through.
  package func admit(_ account: AccountNumber, at now: ContinuousClock.Instant = .now) -> Admission {
    state.withLock { state in
      guard var pause = state.pauses[account] else { return .open }
      guard pause.end > now else {
        note(Pause(end: now + Self.length), of: account, at: now, &state)
        return .open
      }
      guard pause.tries > 0 else { return .resting(pause.end - now) }
      pause.tries -= 1
      note(pause, of: account, at: now, &state)
      return .knownOnly(rest: pause.end - now)
    }
  }

  /// Whether the last answer that this process got for `account` was a refusal.
  package func isPausing(_ account: AccountNumber) -> Bool { state.withLock { $0.pauses[account] != nil } }

  package func refused(_ account: AccountNumber, at now: ContinuousClock.Instant = .now) {
    state.withLock { state in
      var pause = state.pauses[account] ?? Pause(end: now)
      pause.end = now + Self.length
      note(pause, of: account, at: now, &state)
    }
  }

  package func allowed(_ account: AccountNumber) {
    state.withLock { _ = $0.pauses.removeValue(forKey: account) }
  }

  /// All that was asked for in a pause had been asked for before: that uses no try up.
  package func wereKnown(_ account: AccountNumber, at now: ContinuousClock.Instant = .now) {
    state.withLock { state in
      guard var pause = state.pauses[account] else { return }
      pause.tries = min(pause.tries + 1, Self.triesMax)
      note(pause, of: account, at: now, &state)
    }
  }

  private func note(_ pause: Pause, of account: AccountNumber, at now: ContinuousClock.Instant, _ state: inout State) {
    let isFull = state.pauses.isYoungFull && state.pauses.young[account] == nil
    if now - state.begun >= Self.generationLife || isFull {
      state.pauses.turn()
      state.begun = now
    }
    state.pauses.insert(pause, for: account)
  }
}
