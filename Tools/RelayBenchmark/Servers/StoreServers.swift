import Foundation

/// The servers of the operators' stores: one PostgreSQL, or a coordinator of Citus and its workers.
struct StoreServers: Sendable {
  let postgres: PostgresServer
  let workers: [PostgresServer]

  /// - Parameters:
  ///   - programs: as in `PostgresServer.start`.
  ///   - ports: the first of the server that relays connect to, one more for each worker.
  static func start(in workshop: Workshop, programs: String?, ports: [Int]) async throws -> StoreServers {
    let isCluster = ports.count > 1
    let modules = isCluster ? ["citus"] : []
    var servers: [PostgresServer] = []
    // One password, by which the servers of a cluster let each other in.
    let password = randomPassword()
    for (index, port) in ports.enumerated() {
      servers.append(
        try await PostgresServer.start(
          in: workshop, programs: programs, port: port, name: index == 0 ? "postgres" : "worker-\(index)",
          password: password, modules: modules))
    }
    return StoreServers(postgres: servers[0], workers: Array(servers.dropFirst()))
  }

  /// Creates an operator's database. A cluster's knows its workers then; `relay storage distribute` does the rest.
  func createDatabase(_ name: String) async throws {
    let all = [postgres] + workers
    for server in all { try await server.with("postgres") { try $0.execute("CREATE DATABASE \(name)") } }
    guard !workers.isEmpty else { return }
    let (password, port, addresses) = (postgres.password, postgres.port, workers.map(\.port))
    for server in all {
      try await server.with(name) { database in
        try database.execute("CREATE EXTENSION citus")
        try database.execute("INSERT INTO pg_dist_authinfo VALUES (0, 'relay', 'password=\(password)')")
      }
    }
    try await postgres.with(name) { database in
      try database.execute("SELECT citus_set_coordinator_host('127.0.0.1', \(port))")
      for address in addresses { try database.execute("SELECT citus_add_node('127.0.0.1', \(address))") }
    }
  }
}
