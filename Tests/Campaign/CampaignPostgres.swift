import Synchronization
import TestSupport

/// An operator's PostgreSQL with its synchronous standby, which change places, and what lies between them.
final class CampaignPostgres: Sendable {
  private struct Servers {
    var primary: PostgresServer
    var standby: PostgresServer
    /// From the standby to the primary.
    var link: LinkProxy
  }
  private let servers: Mutex<Servers>
  private let hasOwnDisks: Bool

  /// Gives `primary` a standby that each commit waits for.
  init(_ primary: PostgresServer, hasOwnDisks: Bool) async throws {
    self.hasOwnDisks = hasOwnDisks
    let (standby, link) = try await Self.standby(of: primary, hasOwnDisk: hasOwnDisks)
    servers = Mutex(Servers(primary: primary, standby: standby, link: link))
  }

  var primary: PostgresServer { servers.withLock { $0.primary } }
  var standby: PostgresServer { servers.withLock { $0.standby } }
  var link: LinkProxy { servers.withLock { $0.link } }

  /// The primary is gone for good: the standby takes its place.
  func promote() async throws -> PostgresServer {
    let next = standby
    let gone = primary
    try await Loopback.blocking {
      try gone.kill9()
      try next.promote()
    }
    return next
  }

  /// Behind a promotion: a new standby in the place of the promoted one.
  func replaceStandby() async throws {
    let (next, former) = (standby, link)
    let (fresh, link) = try await Self.standby(of: next, hasOwnDisk: hasOwnDisks)
    servers.withLock { $0 = Servers(primary: next, standby: fresh, link: link) }
    try await former.close()
  }

  func close() async throws { try await link.close() }

  private static func standby(of primary: PostgresServer, hasOwnDisk: Bool) async throws -> (PostgresServer, LinkProxy)
  {
    let link = try await LinkProxy(to: primary.port)
    let standby = try await Loopback.blocking {
      let standby = try PostgresServer(standbyOf: primary, over: link.port, hasOwnDisk: hasOwnDisk)
      try primary.waitForStandby(true)
      return standby
    }
    return (standby, link)
  }
}
