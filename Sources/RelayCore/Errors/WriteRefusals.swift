import Synchronization

/// Whether a store takes writes. Each store has one, and notes there each write that it refused because its disk is
/// full or fails.
package final class WriteRefusals: Sendable {
  private struct State {
    var reason: String?
    var count = 0
  }

  private let state = Mutex(State())

  package init() {}

  /// Why the store refuses writes, without secrets; nil while it takes them.
  package var reason: String? { state.withLock { $0.reason } }

  /// Refusals since the process began.
  package var count: Int { state.withLock { $0.count } }

  /// - Parameter reason: for operators, without secrets.
  package func refused(_ reason: String) {
    state.withLock { state in
      state.reason = reason
      state.count += 1
    }
  }

  /// A write that needs room has succeeded.
  /// - Parameter count: `count` when that write began. A later refusal stays in force.
  package func overcome(since count: Int) {
    state.withLock { if $0.count == count { $0.reason = nil } }
  }
}
