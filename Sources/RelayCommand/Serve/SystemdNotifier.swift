import Glibc
import Operations
import RelayWork
import ServiceLifecycle

/// Tells systemd when this process is ready, that it lives, and that it stops (`Type=notify`, `WatchdogSec=`;
/// sd_notify(3)).
struct SystemdNotifier: Service {
  private let socket: NotifySocket
  private let watchdog: Duration?
  private let readiness: Readiness
  private let control: DrainControl

  /// - Parameter environment: `NOTIFY_SOCKET` names the socket, `WATCHDOG_USEC` the time within which systemd wants a
  ///   word.
  /// - Returns: nil where systemd does not ask.
  init?(_ environment: [String: String], readiness: Readiness, control: DrainControl) {
    guard let path = environment["NOTIFY_SOCKET"], let socket = NotifySocket(path) else { return nil }
    self.socket = socket
    self.readiness = readiness
    self.control = control
    let isMeant = environment["WATCHDOG_PID"].map { $0 == "\(getpid())" } ?? true
    watchdog = isMeant ? environment["WATCHDOG_USEC"].flatMap { Int64($0) }.map { .microseconds($0) } : nil
  }

  func run() async throws {
    await cancelWhenGracefulShutdown { await tell() }
    socket.send("STOPPING=1")
  }

  private func tell() async {
    var (isReady, isDraining) = (false, false)
    // Three words within the time that systemd waits.
    let pause = min(watchdog.map { $0 / 3 } ?? .seconds(1), .seconds(1))
    var nextWatchdog = ContinuousClock.now
    while !Task.isCancelled {
      // A word that found the socket full is said again: without it, systemd would end a relay that serves.
      if !isReady, await readiness.reasons().isEmpty { isReady = socket.send("READY=1\nSTATUS=ready") }
      // A drain may take an hour. With STOPPING systemd would kill the relay after TimeoutStopSec.
      if !isDraining, control.isDraining { isDraining = socket.send("STATUS=draining") }
      if watchdog != nil, .now >= nextWatchdog {
        socket.send("WATCHDOG=1")
        nextWatchdog = .now + pause
      }
      await Pause.for(isReady ? pause : min(pause, .milliseconds(100)))
    }
  }
}

/// The datagram socket that systemd listens on.
private struct NotifySocket: Sendable {
  /// `sockaddr_un`, as far as it is used: the family in the host's order, and the path, which in the abstract namespace
  /// begins with a zero.
  private let address: [UInt8]

  /// - Returns: nil for a path that is too long for a socket.
  init?(_ path: String) {
    var bytes = Array(path.utf8)
    guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "@"), bytes.count < 107 else {
      return nil
    }
    if first == UInt8(ascii: "@") { bytes[0] = 0 } else { bytes.append(0) }
    address = withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + bytes
  }

  /// Never waits: systemd judges by what it does not hear.
  /// - Returns: false where the word did not go, as when the socket holds as many as it may (unix(7),
  ///   `max_dgram_qlen`).
  @discardableResult func send(_ text: String) -> Bool {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    let message = Array(text.utf8)
    let sent = address.withUnsafeBytes { address in
      message.withUnsafeBytes { message in
        sendto(
          descriptor, message.baseAddress, message.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT),
          address.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(address.count))
      }
    }
    return sent == message.count
  }
}
