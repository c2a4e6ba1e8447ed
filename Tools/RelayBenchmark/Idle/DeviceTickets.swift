import NIOCore
import Synchronization

/// Each device's ticket for its next TLS connection, and how many handshakes were resumed by one.
final class DeviceTickets: Sendable {
  struct Counts: Sendable {
    var handshakes = 0
    var resumed = 0
  }

  private struct State {
    var tickets: [Int: TLSTicket] = [:]
    var isOffering = true
    var counts = Counts()
  }

  private let context: TLSClientContext
  private let state = Mutex(State())

  init() throws(BenchmarkFailure) { context = try TLSClientContext() }

  /// Whether devices show their tickets from now on.
  func offer(_ isOffering: Bool) { state.withLock { $0.isOffering = isOffering } }

  /// TLS for the next connection of a device, which uses its ticket up.
  func handler(for device: Int) throws(BenchmarkFailure) -> any ChannelHandler {
    let ticket = state.withLock { state in
      let ticket = state.tickets.removeValue(forKey: device)
      return state.isOffering ? ticket : nil
    }
    return try ResumingTLS(context, resuming: ticket) { [self] isResumed in
      state.withLock { state in
        state.counts.handshakes += 1
        if isResumed { state.counts.resumed += 1 }
      }
    } ended: { [self] ticket in
      state.withLock { $0.tickets[device] = ticket }
    }
  }

  /// - Returns: the handshakes since the last call.
  func takeCounts() -> Counts {
    state.withLock { state in
      defer { state.counts = Counts() }
      return state.counts
    }
  }
}
