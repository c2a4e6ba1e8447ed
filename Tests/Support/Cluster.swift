// An operator on real servers: PostgreSQL, Redis, and relay processes over them.

import ChildProcesses
import Foundation

/// PostgreSQL, Redis and an operator over them, for one test.
package struct Cluster: Sendable {
  package let site: RelayOperator
  package let database: String
  package let postgres: PostgresServer
  package let redis: RedisServer

  /// The servers of the store.
  package enum Servers: String, CaseIterable, Sendable {
    case one
    /// A coordinator of Citus and two workers, which tests share.
    case distributed

    /// Without `distributed` where PostgreSQL does not offer the extension, which `DistributedStoreTests` says.
    package static let allCases: [Servers] = [.one] + (CitusServers.isOffered ? [.distributed] : [])
  }

  /// Limits that no test of something else runs into.
  package static let unlimited = [
    "RELAY_LIMITS_SMS_DESTINATION_SIZE": "1000", "RELAY_LIMITS_VERIFY_NUMBER_SIZE": "1000",
    "RELAY_LIMITS_PREKEYS_SIZE": "1000000", "RELAY_LIMITS_PREKEYS_TARGET_SIZE": "1000000",
    "RELAY_LIMITS_MESSAGES_SIZE": "1000000", "RELAY_LIMITS_ALLOCATE_DEVICE_SIZE": "1000",
    "RELAY_LIMITS_VERIFY_DEVICE_SIZE": "1000",
  ]

  /// A fresh database with an up-to-date schema, and an empty Redis.
  /// - Parameters:
  ///   - servers: of the store, which is distributed by the operator's own command.
  ///   - ownPostgres: a server that the test may stop; else one that tests share. With `Servers.one`.
  ///   - hasOwnDisks: that can be full (`TestDisk`); with `ownPostgres`.
  package static func with<Result: Sendable>(
    _ name: String = "local", on servers: Servers = .one, settings: [String: String] = unlimited,
    ownPostgres: Bool = false, hasOwnDisks: Bool = false, _ body: @Sendable (Cluster) async throws -> Result
  ) async throws -> Result {
    try await MachineRoom.with {
      let (postgres, database) = try await Loopback.blocking {
        switch servers {
        case .one:
          let postgres = try ownPostgres ? PostgresServer(hasOwnDisk: hasOwnDisks) : PostgresServer.shared()
          return (postgres, try postgres.createDatabase())
        case .distributed:
          let citus = try CitusServers.shared()
          return (citus.coordinator, try citus.createDatabase())
        }
      }
      return try await RedisServer.with(hasOwnDisk: hasOwnDisks) { redis in
        try await RelayOperator.with(
          name, stores: .servers(storage: database, coordination: redis.url), settings: settings
        ) { site in
          try await site.relay("migrate", "run")
          if servers == .distributed { try await site.relay("storage", "distribute", "--shards", "4") }
          return try await body(Cluster(site: site, database: database, postgres: postgres, redis: redis))
        }
      }
    }
  }

  /// Starts `count` processes, runs `body`, and ends those that still run.
  package func serve<Result>(
    _ count: Int, isolation: isolated (any Actor)? = #isolation, _ body: ([RelayProcess]) async throws -> Result
  ) async throws -> Result {
    var relays: [RelayProcess] = []
    do {
      for _ in 0..<count { relays.append(try await site.serve()) }
      let result = try await body(relays)
      for relay in relays where relay.child.exit == nil {
        let exit = await relay.terminate()
        guard exit == .code(0) else { throw TestFailure("relay serve \(exit): \(relay.log().suffix(2000))") }
      }
      return result
    } catch {
      for relay in relays { await relay.kill9() }
      throw error
    }
  }
}
