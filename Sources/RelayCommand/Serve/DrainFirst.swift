import Glibc
import Logging
import Operations
import Relay
import RelayHTTP
import RelayWork
import ServiceLifecycle
import UnixSignals

/// Stops before everything else, and so the others only when it has returned.
///
/// SIGTERM, SIGINT or `relay drain` begin it: the relay says that it is not ready; then WebSockets are closed evenly
/// over what is left of the window, new ones refused, and whoever asks over HTTP told to come back on another
/// connection. The listeners stop behind it, in the group's shutdown, and finish what is under way.
struct DrainFirst: Service {
  let control: DrainControl
  let readiness: Readiness
  let state: DrainState
  let hub: Hub
  let logger: Logger

  func run() async throws {
    guard let window = await ordered() else { return }
    logger.notice(
      "draining: what is under way will be finished",
      metadata: ["connections": "\(control.connections)", "seconds": "\(window.components.seconds)"])
    Task.detached { await self.endAtTheLatest(after: window + Self.grace) }

    readiness.drain()
    let lead = min(Self.leadMax, window / 2)
    guard await Pause.for(lead) else { throw CancellationError() }
    state.begin()
    await hub.drain(over: window - lead)
    logger.notice("drained: no new connections, finishing what is under way")
  }

  /// How long everything goes on as before except `/readyz`, at most: load balancers that look every second have seen
  /// by then that no more is to be sent here, and bring those whose WebSockets are closed to another process.
  private static let leadMax = Duration.seconds(2)
  /// More than all that stop behind the drain have together, one after the other: the listeners 20 s for requests under
  /// way and 10 s for WebSockets, the push gateway 25 s, the hub and the acknowledgements some seconds each. One stuck
  /// connection is cut off by its listener, and the process still ends with 0.
  private static let grace = Duration.seconds(90)

  /// - Returns: the window; nil when the group is cancelled because another service failed.
  private func ordered() async -> Duration? {
    await withGracefulShutdownHandler {
      for await window in control.orders { return window }
      return nil
    } onGracefulShutdown: { [control] in
      control.drain()
    }
  }

  /// Ends the process, even if something in it hangs.
  private func endAtTheLatest(after limit: Duration) async {
    guard await Pause.for(limit) else { return }
    logger.error(
      "not done after the grace: stopped, and what was under way is cut off",
      metadata: ["seconds": "\(limit.components.seconds)"])
    _exit(1)
  }
}

/// SIGTERM and SIGINT, from the start of a process that serves to its end.
///
/// The first orders the drain; one that comes while the process drains ends it on the spot, as a crash would: nothing
/// that was accepted is lost by it.
struct StopSignals {
  let control: DrainControl
  let logger: Logger

  func listen() async {
    let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
    // Detached on purpose: it listens until the process ends, and may have to end the process itself.
    Task.detached { await obey(signals) }
  }

  private func obey(_ signals: UnixSignalsSequence) async {
    for await signal in signals {
      guard !control.drain() else { continue }
      logger.warning("\(signal) again: stopped at once, and what was under way is cut off")
      _exit(128 + signal.rawValue)
    }
  }
}
