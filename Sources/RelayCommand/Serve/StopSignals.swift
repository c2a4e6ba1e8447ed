import Glibc
import Logging
import Operations
import UnixSignals

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
