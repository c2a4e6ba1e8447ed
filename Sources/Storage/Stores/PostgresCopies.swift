import RelayCore
import Synchronization

/// Copies that are under way: they end with the storage.
final class PostgresCopies: Sendable {
  private struct State {
    var running: [ObjectIdentifier: StopSignal] = [:]
    var isClosed = false
  }
  private let state = Mutex(State())

  /// - Returns: what ends the copy that begins.
  func begin() throws(StoreError) -> StopSignal {
    let stop = try StopSignal()
    let isOpen = state.withLock { state in
      if !state.isClosed { state.running[ObjectIdentifier(stop)] = stop }
      return !state.isClosed
    }
    guard isOpen else { throw .unavailable(reason: "closed") }
    return stop
  }

  func end(_ stop: StopSignal) { state.withLock { $0.running[ObjectIdentifier(stop)] = nil } }

  func close() {
    let running = state.withLock { state in
      state.isClosed = true
      return state.running.values.map { $0 }
    }
    for stop in running { stop.raise() }
  }
}
