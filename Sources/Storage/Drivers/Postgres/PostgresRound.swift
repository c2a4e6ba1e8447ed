// A round of attempts to connect, each bounded in time.

import CLibPQ
import DequeModule

/// Attempts at the hosts of a URL, one after the other, until one is connected. Belongs to the reactor's thread.
final class PostgresRound {
  enum Outcome {
    /// The handle is the taker's.
    case connected(OpaquePointer, at: PostgresHost.Place)
    /// - Parameter reasons: of each host, as libpq says it.
    case failed(reasons: [String])
  }

  private struct Attempt {
    let place: PostgresHost.Place
    let handle: OpaquePointer
    let timers: [Reactor.TimerID]
    var watched: Int32?
  }

  private enum Bounds {
    /// For the only host.
    static let connectTimeout: Duration = .seconds(5)
    /// For one of several: with the longest pause between two rounds it is less than the five seconds within which a
    /// server that was promoted is found.
    static let connectTimeoutOfSeveral: Duration = .seconds(3)
    /// The part of that until TCP is connected.
    static let reachTimeout: Duration = .milliseconds(1500)
  }

  /// Whether there is more than one host.
  let isOverSeveral: Bool
  private let reactor: Reactor
  private let completion: (Outcome) -> Void
  private var remaining: Deque<PostgresHost>
  private var attempt: Attempt?
  private var faults: [String] = []

  /// - Parameters:
  ///   - hosts: in the order of attempts; not empty.
  ///   - completion: is called once, unless the round is ended first; perhaps within `start`.
  init(_ hosts: [PostgresHost], on reactor: Reactor, completion: @escaping (Outcome) -> Void) {
    isOverSeveral = hosts.count > 1
    remaining = Deque(hosts)
    self.reactor = reactor
    self.completion = completion
  }

  /// The host that is tried just now.
  var place: PostgresHost.Place? { attempt?.place }

  func start() { attemptNext() }

  /// Gives up.
  func end() {
    remaining.removeAll()
    if let attempt = release() { PQfinish(attempt.handle) }
  }

  private func attemptNext() {
    guard let host = remaining.popFirst() else { return completion(.failed(reasons: faults)) }
    guard let handle = host.startConnecting() else { return failed("no memory is left") }
    let limit = isOverSeveral ? Bounds.connectTimeoutOfSeveral : Bounds.connectTimeout
    var timers = [reactor.schedule(after: limit) { [self] in gaveUp(after: limit) }]
    if isOverSeveral {
      timers.append(
        reactor.schedule(after: Bounds.reachTimeout) { [self] in
          // A server that is reached has the whole time for TLS and passwords.
          if PQstatus(handle) == CONNECTION_STARTED { gaveUp(after: Bounds.reachTimeout) }
        })
    }
    attempt = Attempt(place: host.place, handle: handle, timers: timers)
    if PQstatus(handle) == CONNECTION_BAD { failed(Self.message(of: handle)) } else { wait(for: .write) }
  }

  private func poll() {
    guard let handle = attempt?.handle else { return }
    // libpq may close the socket and open another one for the next address of the host.
    unwatch()
    switch PQconnectPoll(handle) {
    case PGRES_POLLING_READING: wait(for: .read)
    case PGRES_POLLING_WRITING: wait(for: .write)
    case PGRES_POLLING_OK:
      guard let attempt = release() else { return }
      completion(.connected(attempt.handle, at: attempt.place))
    default: failed(Self.message(of: handle))
    }
  }

  private func gaveUp(after limit: Duration) {
    guard let place else { return }
    failed("no answer within \(limit) from \(place)")
  }

  private func failed(_ reason: String) {
    faults.append(reason)
    if let attempt = release() { PQfinish(attempt.handle) }
    attemptNext()
  }

  private func wait(for interest: Reactor.Interest) {
    guard let handle = attempt?.handle else { return }
    let socket = PQsocket(handle)
    attempt?.watched = socket
    reactor.watch(socket, for: interest) { [self] _ in poll() }
  }

  private func unwatch() {
    if let socket = attempt?.watched { reactor.unwatch(socket) }
    attempt?.watched = nil
  }

  /// - Returns: the attempt under way, whose handle is the caller's from here on.
  private func release() -> Attempt? {
    unwatch()
    defer { attempt = nil }
    for timer in attempt?.timers ?? [] { reactor.cancel(timer) }
    return attempt
  }

  /// libpq's message on a connection that failed: hosts and users, no statement and no value.
  private static func message(of handle: OpaquePointer) -> String {
    String(cString: PQerrorMessage(handle)).split(separator: "\n").map { $0.drop { $0 == "\t" || $0 == " " } }
      .joined(separator: "; ")
  }
}
