package import RelayCore

/// What a PostgreSQL server says of itself, for `relay doctor`.
package struct PostgresDiagnosis: Sendable, Equatable {
  /// As the server names it: `15.20 (Debian 15.20-0+deb12u1)`.
  package let version: String
  package let major: Int
  /// Whether a commit outlives a crash of the host: without any of these it may not.
  package let syncsFiles: Bool
  package let writesFullPages: Bool
  /// As our sessions have it.
  package let commitsSynchronously: Bool
  package let connections: Int
  package let connectionsMax: Int
  /// A standby takes no writes.
  package let isStandby: Bool
  /// The server's clock.
  package let time: Timestamp
}

extension PostgresStorage {
  package func diagnose() async throws(StoreError) -> PostgresDiagnosis {
    let found = try await read(
      .prepared(
        "diagnose",
        """
        SELECT current_setting('server_version'), current_setting('server_version_num')::integer,
          current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
          current_setting('synchronous_commit') NOT IN ('off', 'local'),
          (SELECT sum(numbackends)::integer FROM pg_stat_database), current_setting('max_connections')::integer,
          pg_is_in_recovery(), (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        """))
    guard found.rowCount == 1 else { throw .corrupted(reason: "the server says nothing of itself") }
    var row = found.cursor(row: 0)
    return PostgresDiagnosis(
      version: try row.text(), major: Int(try row.integer() / 10_000), syncsFiles: try row.boolean(),
      writesFullPages: try row.boolean(), commitsSynchronously: try row.boolean(), connections: Int(try row.integer()),
      connectionsMax: Int(try row.integer()), isStandby: try row.boolean(), time: try row.timestamp())
  }
}
