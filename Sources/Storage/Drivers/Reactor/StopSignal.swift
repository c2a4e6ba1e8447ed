import CLibPQ
import Glibc
import RelayCore

/// Ends the waits of a thread that blocks: raised once, from anywhere, and never lowered.
final class StopSignal: Sendable {
  private let descriptor: Int32

  /// - Throws: `.unavailable` when the system has no descriptor left.
  init() throws(StoreError) {
    descriptor = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
    guard descriptor >= 0 else { throw .unavailable(reason: "eventfd failed with errno \(errno)") }
  }

  deinit { close(descriptor) }

  func raise() {
    var one: UInt64 = 1
    // Fails only when the counter is full, and then the signal is raised already.
    _ = write(descriptor, &one, 8)
  }

  enum Wait {
    case ready
    case stopped
    case late
  }

  /// Blocks until `socket` is ready for `events` (`POLLIN`, `POLLOUT`), the signal is raised, or it is too late.
  func wait(for events: Int32, on socket: Int32, until deadline: ContinuousClock.Instant) -> Wait {
    var watched = [
      pollfd(fd: socket, events: Int16(events), revents: 0), pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
    ]
    while true {
      let left = ContinuousClock.now.duration(to: deadline)
      guard left > .zero else { return .late }
      let code = poll(&watched, nfds_t(watched.count), Int32(clamping: Int64(left / .milliseconds(1)) + 1))
      // Interrupted, or the time is up: the next round tells.
      guard code > 0 else { continue }
      return watched[1].revents == 0 ? .ready : .stopped
    }
  }
}
