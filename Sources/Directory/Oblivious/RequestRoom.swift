import RelayCore
import Synchronization

/// Room for requests that are under way or wait: of each account one at a time, and of all together so much.
final class RequestRoom: Sendable {
  /// Given back with its last holder.
  final class Place: Sendable {
    private let giveBack: @Sendable () -> Void
    fileprivate init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }
    deinit { giveBack() }
  }

  private struct State {
    var used = 0
    var accounts: Set<AccountNumber> = []
  }

  private let size: Int
  private let retryAfter: Duration
  private let state = Mutex(State())

  /// - Parameter retryAfter: what is asked of those for whom there is none.
  init(size: Int, retryAfter: Duration) {
    self.size = size
    self.retryAfter = retryAfter
  }

  /// To be asked before anything is charged.
  /// - Parameter count: how much of the room it takes.
  /// - Throws: `.unavailable` when there is not so much left, or another request of `account` is not done.
  func enter(_ account: AccountNumber, taking count: Int) throws(Problem) -> Place {
    let isLetIn = state.withLock { state in
      guard state.used + count <= size, state.accounts.insert(account).inserted else { return false }
      state.used += count
      return true
    }
    guard isLetIn else { throw Problem(.unavailable, retryAfter: retryAfter) }
    return Place { [weak self] in
      self?.state.withLock { state in
        state.used -= count
        state.accounts.remove(account)
      }
    }
  }
}
