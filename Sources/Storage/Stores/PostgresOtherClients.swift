// Work that needs the store for itself looks for other clients of its database.

import RelayCore
import RelayWork

extension PostgresStorage {
  /// For each statement of such work: more than any table takes to be written anew, or to be copied.
  static let statementMax = Duration.seconds(7 * 86_400)

  /// Counts connections of clients that stay: the server takes a moment to see that one has gone.
  func lastingConnections(than maintenance: PostgresConnection) async throws(StoreError) -> Int {
    for _ in 0..<Self.looksMax {
      guard try await otherConnections(than: maintenance) > 0 else { return 0 }
      await Pause.for(Self.lookInterval)
    }
    return try await otherConnections(than: maintenance)
  }

  private static let looksMax = 20
  private static let lookInterval = Duration.milliseconds(100)

  /// Connections of other clients to this database, whatever they call themselves: which of them are relays, nothing
  /// tells.
  private func otherConnections(than maintenance: PostgresConnection) async throws(StoreError) -> Int {
    var own: [Int32] = []
    for connection in connections + [maintenance] {
      let found = try await connection.perform([PostgresStep(.once("SELECT pg_backend_pid()"))])
      var row = found.cursor(row: 0)
      own.append(try row.integer())
    }
    // A server may hide the kind of another role's session. Its own workers have no role. In a cluster, servers ask
    // each other, and their daemons have a role.
    let others = PostgresStep(
      once: """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL (\(each: own))
          AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
          AND application_name NOT LIKE ALL (ARRAY['citus_internal%', 'Citus %'])
        """)
    let found = try await maintenance.perform([others])
    var row = found.cursor(row: 0)
    return Int(try row.bigint())
  }
}
