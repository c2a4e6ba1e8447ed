package import RelayCore

/// How a PostgreSQL server is set up for backups, for `relay backup`.
package struct PostgresBackupFacts: Sendable, Equatable {
  package let major: Int
  /// The size of the relay's database, in bytes.
  package let bytes: Int64
  /// `minimal`, `replica`, `logical`.
  package let walLevel: String
  package let walSendersMax: Int
  /// Whether the write-ahead log is archived.
  package let archives: Bool
  /// Files of it that could not be archived since the server's statistics began.
  package let archiveFailures: Int64
  /// When the last one was archived; nil for never.
  package let lastArchived: Timestamp?
}

extension PostgresStorage {
  package func backupFacts() async throws(StoreError) -> PostgresBackupFacts {
    let found = try await read(
      "backup-facts",
      """
      SELECT current_setting('server_version_num')::integer, pg_database_size(current_database())::bigint,
        current_setting('wal_level'), current_setting('max_wal_senders')::integer,
        current_setting('archive_mode') <> 'off', a.failed_count,
        coalesce((extract(epoch FROM a.last_archived_time) * 1000)::bigint, 0)
      FROM pg_stat_archiver AS a
      """)
    guard let facts = try found.first(PostgresBackupFacts.init(row:)) else {
      throw .corrupted(reason: "the server says nothing of its backups")
    }
    return facts
  }
}

extension PostgresBackupFacts {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let (version, bytes, level) = (try row.integer(), try row.bigint(), try row.text())
    let (senders, archives, failures) = (try row.integer(), try row.boolean(), try row.bigint())
    let archived = try row.timestamp()
    self.init(
      major: Int(version / 10_000), bytes: bytes, walLevel: level, walSendersMax: Int(senders), archives: archives,
      archiveFailures: failures, lastArchived: archived.millis > 0 ? archived : nil)
  }
}
