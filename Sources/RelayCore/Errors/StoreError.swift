import Synchronization

/// A failure of a store. Never carries message bytes, numbers or bound parameters.
package enum StoreError: Error, Sendable, CustomStringConvertible {
  /// The store cannot be reached, or refused for a reason that passes. Nothing was stored.
  case unavailable(reason: String)
  /// The store answered what cannot be: a defect of ours or a damaged store.
  case corrupted(reason: String)

  package var description: String {
    switch self {
    case .unavailable(let reason): "store unavailable: \(reason)"
    case .corrupted(let reason): "store corrupted: \(reason)"
    }
  }
}

/// Whether a store takes writes. Each store has one, and notes there each write that it refused because its disk is
/// full or fails.
package final class WriteRefusals: Sendable {
  private struct State {
    var reason: String?
    var last: ContinuousClock.Instant?
  }

  private let state = Mutex(State())

  package init() {}

  /// Why the store refuses writes, without secrets; nil while it takes them.
  package var reason: String? { state.withLock { $0.reason } }

  /// - Parameter reason: for operators, without secrets.
  package func refused(_ reason: String) {
    state.withLock { state in
      state.reason = reason
      state.last = .now
    }
  }

  /// A write that needs room has succeeded. That ends the refusals, unless one is younger than `quiet`: a disk that is
  /// nearly full takes some writes and refuses others.
  package func overcome(after quiet: Duration) {
    state.withLock { state in
      guard let last = state.last, ContinuousClock.now - last >= quiet else { return }
      state.reason = nil
    }
  }
}
