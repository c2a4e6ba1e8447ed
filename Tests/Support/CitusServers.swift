// A cluster of Citus of the tests' own.

import Foundation
import Synchronization

/// A coordinator and two workers, each a private PostgreSQL that has loaded Citus.
package final class CitusServers: Sendable {
  package let coordinator: PostgresServer
  package let workers: [PostgresServer]
  private let databaseCount = Atomic<Int>(0)
  /// A worker that is added gets the roles, which all databases of a server share: two at once would meet there.
  private let adding = Mutex(())

  /// Whether PostgreSQL here offers Citus; without it no suite on Citus runs.
  package static let isOffered: Bool = {
    guard let tools = try? PostgresServer.findTools() else { return false }
    let version = URL(filePath: tools).deletingLastPathComponent().lastPathComponent
    let shares = [
      "/usr/share/postgresql/\(version)", tools + "/../share/postgresql", tools + "/../share",
    ]
    return shares.contains { FileManager.default.fileExists(atPath: $0 + "/extension/citus.control") }
  }()

  /// Says why a suite was skipped.
  package static let absence = "PostgreSQL here does not offer Citus"

  /// All suites of one test process share these servers. The first that asks starts them.
  package static func shared() throws -> CitusServers {
    try sharedServers.withLock { servers in
      if let servers { return servers }
      let started = try CitusServers()
      servers = started
      return started
    }
  }
  private static let sharedServers = Mutex<CitusServers?>(nil)

  /// Starts the three, and returns when they answer.
  package init() throws {
    // Each database has a process of Citus at each server.
    let settings = ["shared_preload_libraries = 'citus'", "max_worker_processes = 64"]
    coordinator = try PostgresServer(settings: settings)
    workers = [try PostgresServer(settings: settings), try PostgresServer(settings: settings)]
  }

  package var all: [PostgresServer] { [coordinator] + workers }

  /// Creates an empty database at each server, with the extension at the workers.
  /// - Parameter knowsWorkers: whether the coordinator has the extension as well, and was told of the workers.
  /// - Returns: its URL at the coordinator.
  package func createDatabase(knowsWorkers: Bool = true) throws -> String {
    let name = "cluster_\(databaseCount.add(1, ordering: .relaxed).newValue)"
    for server in all { try server.sql("CREATE DATABASE \(name)", in: "postgres") }
    for worker in workers { try worker.sql("CREATE EXTENSION citus", in: name) }
    let url = coordinator.url(database: name)
    if knowsWorkers {
      try coordinator.sql("CREATE EXTENSION citus", in: name)
      try addWorkers(to: url)
    }
    return url
  }

  /// Tells the coordinator of the workers, in a database that has the extension.
  package func addWorkers(to url: String) throws {
    try adding.withLock { _ in
      try coordinator.sql("SELECT citus_set_coordinator_host('127.0.0.1', \(coordinator.port))", in: url)
      for worker in workers { try coordinator.sql("SELECT citus_add_node('127.0.0.1', \(worker.port))", in: url) }
    }
  }
}
