package import RelayCore
import RelayWork
import Synchronization

/// The numbers that have lately answered each account, in this process's memory alone: the account knows that they
/// are registered.
///
/// Bounded in number and age. Each pair is kept as a hash alone, under a secret of the process: a million of them
/// have room. Numbers that are still to be paid stand there as they are, few for each account.
package final class Correspondents: Sendable {
  /// The terms of a request for a number.
  package enum Admission: Sendable, Equatable {
    /// The number has answered the account, or counts as one that has, from here on.
    case free
    /// As `free`; and these are to be paid now. `settled` follows.
    case settling([AccountNumber])
    /// To be paid before it is asked for.
    case charged
  }

  /// The debt of an account.
  fileprivate struct Debt {
    /// Numbers that have answered, or are being asked.
    var numbers: [AccountNumber] = []
    /// Whether others are just being paid.
    var isSettling = false
  }

  private struct State {
    /// Hashes of an account and a number.
    var pairs: AgedGenerations<Int, Void, ContinuousClock.Instant>
    /// Since the young generation of pairs began.
    var debts: [AccountNumber: Debt] = [:]

    mutating func turn(at now: ContinuousClock.Instant) {
      if pairs.turnIfDue(at: now) { debts = [:] }
    }
  }

  private let state: Mutex<State>

  private static let generationLife = Duration.seconds(12 * 3600)
  /// New numbers that are paid at once. Most people write to fewer in half a day, and pay nothing.
  package static let debtMax = 50

  /// - Parameter capacity: pairs at most, of some 20 bytes each.
  package init(capacity: Int = 1_000_000, now: ContinuousClock.Instant = .now) {
    state = Mutex(State(pairs: AgedGenerations(capacity: capacity, life: Self.generationLife, began: now)))
  }

  /// - Parameter mayOwe: whether `account` may be asked to pay for a new number later.
  package func admit(
    _ number: AccountNumber, of account: AccountNumber, mayOwe: Bool, at now: ContinuousClock.Instant = .now
  ) -> Admission {
    let pair = Self.pair(account, number)
    return state.withLock { state in
      state.turn(at: now)
      if state.pairs.young[pair] != nil { return .free }
      if state.pairs.old[pair] != nil {
        state.pairs.insert((), for: pair, at: now)
        return .free
      }
      guard mayOwe else { return .charged }
      let admission = state.debts[account, default: Debt()].take(number)
      if admission != .charged { state.pairs.insert((), for: pair, at: now) }
      return admission
    }
  }

  /// The numbers that were to be paid are paid, or refused.
  package func settled(_ account: AccountNumber) {
    state.withLock { $0.debts[account]?.isSettling = false }
  }

  /// `number` has answered `account`, or has written to it.
  package func add(_ number: AccountNumber, of account: AccountNumber, at now: ContinuousClock.Instant = .now) {
    let pair = Self.pair(account, number)
    state.withLock { state in
      state.turn(at: now)
      state.pairs.insert((), for: pair, at: now)
    }
  }

  /// `number` is not registered: it was paid by itself.
  package func remove(_ number: AccountNumber, of account: AccountNumber) {
    let pair = Self.pair(account, number)
    state.withLock { state in
      state.pairs.removeValue(forKey: pair)
      state.debts[account]?.numbers.removeAll { $0 == number }
    }
  }

  private static func pair(_ account: AccountNumber, _ number: AccountNumber) -> Int {
    var hasher = Hasher()
    hasher.combine(account)
    hasher.combine(number)
    return hasher.finalize()
  }
}

extension Correspondents.Debt {
  fileprivate mutating func take(_ number: AccountNumber) -> Correspondents.Admission {
    guard numbers.count < Correspondents.debtMax else {
      guard !isSettling else { return .charged }
      defer { (numbers, isSettling) = ([number], true) }
      return .settling(numbers)
    }
    numbers.append(number)
    guard numbers.count == Correspondents.debtMax, !isSettling else { return .free }
    defer { (numbers, isSettling) = ([], true) }
    return .settling(numbers)
  }
}
