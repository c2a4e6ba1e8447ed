import RelayCore
import Synchronization

/// Accounts whose budget has refused them: for a minute it is not asked again, and then for one request at a time, until it
/// allows one.
///
/// The budget's sketch takes a contact in a hundred at most for one that was asked for before. Without a pause, an account
/// that has spent its budget could ask for contacts one by one, as fast as the bucket allows, and be answered for those.
final class BudgetPauses: Sendable {
  /// Two generations, the older one at least half a day old when it is forgotten.
  private struct State {
    var young: [AccountNumber: ContinuousClock.Instant] = [:]
    var old: [AccountNumber: ContinuousClock.Instant] = [:]
    var begun: ContinuousClock.Instant

    /// When the pause of `account` ends, or has ended.
    subscript(account: AccountNumber) -> ContinuousClock.Instant? { young[account] ?? old[account] }
  }

  private static let length = Duration.seconds(60)
  private static let generationLife = Duration.seconds(12 * 3600)
  private let generationSize: Int
  private let state: Mutex<State>

  /// - Parameter capacity: accounts at most; with more, those that were refused longest ago are forgotten.
  init(capacity: Int = 100_000, now: ContinuousClock.Instant = .now) {
    generationSize = max(1, capacity / 2)
    state = Mutex(State(begun: now))
  }

  /// Called before the budget is asked. Where the last answer was a refusal, the next pause begins with the question: of
  /// many requests at a time one alone gets through.
  /// - Returns: how long the pause still lasts; nil when the budget may be asked.
  func rest(of account: AccountNumber, at now: ContinuousClock.Instant = .now) -> Duration? {
    state.withLock { state in
      guard let end = state[account] else { return nil }
      if end > now { return end - now }
      note(account, at: now, &state)
      return nil
    }
  }

  func refused(_ account: AccountNumber, at now: ContinuousClock.Instant = .now) {
    state.withLock { note(account, at: now, &$0) }
  }

  func allowed(_ account: AccountNumber) {
    state.withLock { state in
      state.young[account] = nil
      state.old[account] = nil
    }
  }

  private func note(_ account: AccountNumber, at now: ContinuousClock.Instant, _ state: inout State) {
    if now - state.begun >= Self.generationLife || state.young.count >= generationSize {
      state.old = state.young
      state.young = [:]
      state.begun = now
    }
    state.young[account] = now + Self.length
  }
}
