import Foundation
import Synchronization

/// Two PostgreSQL servers that change places: one takes writes, the other follows it.
///
/// Both keep their ports, and a URL names both. Calls block for as long as PostgreSQL's own tools take.
package final class PostgresPair: Sendable {
  /// How a primary ends.
  package enum End: Sendable, CaseIterable {
    /// It is stopped, and its standby has got all of it.
    case stopped
    case killed
  }

  private struct Servers {
    var primary: PostgresServer
    var standby: PostgresServer
  }
  private let servers: Mutex<Servers>
  private let isSynchronous: Bool
  /// Of a database, with both hosts.
  package let url: String

  /// - Parameters:
  ///   - isSynchronous: whether commits wait for the standby.
  ///   - isSecure: whether the URL demands TLS with a verified server, and has a password that is asked for.
  package init(isSynchronous: Bool, isSecure: Bool = false) throws {
    self.isSynchronous = isSynchronous
    let authority = isSecure ? try TestAuthority("postgres") : nil
    let primary = try PostgresServer(tls: authority.map { ServerTLS(try $0.leaf(relay: nil, host: "localhost")) })
    var url = try primary.createDatabase()
    if isSecure { url = try primary.addRole("keeper", password: "hunter2", to: url) }
    let standby = try PostgresServer(standbyOf: primary)
    if isSynchronous { try primary.waitForStandby(true) }
    url = url.replacing("127.0.0.1:\(primary.port)", with: "localhost:\(primary.port),localhost:\(standby.port)")
    if let authority {
      let file = primary.folder + "/authority.pem"
      try authority.pem.write(toFile: file, atomically: true, encoding: .utf8)
      url += "?sslmode=verify-full&sslrootcert=\(file)"
    }
    self.url = url
    servers = Mutex(Servers(primary: primary, standby: standby))
  }

  package var primary: PostgresServer { servers.withLock { $0.primary } }
  package var standby: PostgresServer { servers.withLock { $0.standby } }

  /// Ends the primary and promotes the standby; returns when that takes writes. Its commits wait for nobody.
  package func failOver(_ end: End) throws {
    let (former, next) = (primary, standby)
    switch end {
    case .stopped: try former.stop()
    case .killed: try former.kill9()
    }
    try next.promote()
    servers.withLock { $0 = Servers(primary: next, standby: former) }
  }

  /// The former primary comes back as a standby; returns when it has all that was committed.
  package func rejoin() throws {
    try standby.follow(primary)
    try untilFollowed()
    if isSynchronous { try primary.waitForStandby(true) }
  }

  package func untilFollowed() throws {
    let deadline = ContinuousClock.now + MachineSpeed.allow(.seconds(60))
    while try !primary.isFollowed() {
      guard ContinuousClock.now < deadline else { throw TestFailure("the standby does not follow") }
      usleep(20_000)
    }
  }
}
