package import RelayCore

/// Facts that a PostgreSQL server tells of itself, for `relay doctor`.
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
  package let way: Way
  package let log: Log
  package let locks: Locks
  package let replication: Replication

  /// The server's part among those that may take its place.
  package struct Replication: Sendable, Equatable {
    /// The server that we are connected to, as the URL names it: `db1:5432`.
    package let primary: String
    /// The hosts of the URL.
    package let hosts: Int
    /// `synchronous_standby_names`; empty: commits wait for no standby.
    package let synchronousNames: String
    package let standbys: [Standby]

    /// A server that follows this one.
    package struct Standby: Sendable, Equatable {
      /// Its name; nil where our role may not see it (`pg_monitor`).
      package let name: String?
      /// `streaming`, `catchup`; nil likewise.
      package let state: String?
      /// `sync`, `quorum`, `potential`, `async`; nil likewise.
      package let synchrony: String?

      package var isSynchronous: Bool { synchrony == "sync" || synchrony == "quorum" }
    }
  }

  /// How we get to it.
  package struct Way: Sendable, Equatable {
    /// The protocol that encrypts our sessions (`TLSv1.3`); nil in clear.
    package let encryption: String?
    /// As libpq took it.
    package let sslMode: String
    /// Over loopback or a Unix socket alone.
    package let isLocal: Bool

    /// Whether nobody but the server named in the URL can be at the other end.
    package var isVerified: Bool { encryption != nil && sslMode == "verify-full" }
  }

  /// The server's table of locks, which all its sessions share: a statement that finds no room in it fails.
  package struct Locks: Sendable, Equatable {
    /// `max_locks_per_transaction`.
    package let perTransaction: Int
    /// For how many transactions there is room: sessions and prepared ones.
    package let transactions: Int
    /// The partitions of `messages` and `acknowledged`.
    package let partitions: Int
    /// The locks that one statement on messages may take: each partition, and each of its indexes.
    package let perStatement: Int
    /// Sessions of relays on this database; a process has up to seven.
    package let sessions: Int

    package init(perTransaction: Int, transactions: Int, partitions: Int, perStatement: Int, sessions: Int) {
      self.perTransaction = perTransaction
      self.transactions = transactions
      self.partitions = partitions
      self.perStatement = perStatement
      self.sessions = sessions
    }

    package var room: Int { perTransaction * transactions }
    /// With each session in such a statement that has to do with messages: two of three of those there are, or of
    /// those of one process.
    package var needed: Int { perStatement * max(sessions, Self.sessionsPerProcess) * 2 / 3 }
    /// More than three quarters of the table.
    package var areScarce: Bool { needed * 4 > room * 3 }
    /// The setting that leaves half of the table to others.
    package var perTransactionNeeded: Int { (needed * 2 + max(transactions, 1) - 1) / max(transactions, 1) }

    private static let sessionsPerProcess = 7
  }

  /// The values of our statements that the server's log gets: numbers are among them.
  package struct Log: Sendable, Equatable {
    /// Whether some statements are logged, or all.
    package let hasStatements: Bool
    /// Whether they are logged with their values; where they are not logged, nothing is.
    package let hasParameters: Bool
    /// Whether an error is logged with the values of the statement.
    package let hasParametersOfErrors: Bool
    /// Whether an error is logged with the row or the key that it met.
    package let hasRowsOfErrors: Bool
  }
}

extension PostgresStorage {
  package func diagnose() async throws(StoreError) -> PostgresDiagnosis {
    let replication = try await replication()
    let found = try await read("diagnose", Self.diagnosis)
    guard found.rowCount == 1 else { throw .corrupted(reason: "the server says nothing of itself") }
    var row = found.cursor(row: 0)
    return PostgresDiagnosis(
      version: try row.text(), major: Int(try row.integer() / 10_000), syncsFiles: try row.boolean(),
      writesFullPages: try row.boolean(), commitsSynchronously: try row.boolean(), connections: Int(try row.integer()),
      connectionsMax: Int(try row.integer()), isStandby: try row.boolean(), time: try row.timestamp(),
      way: try way(encryption: row.text()),
      log: PostgresDiagnosis.Log(
        hasStatements: try row.boolean(), hasParameters: try row.boolean(), hasParametersOfErrors: try row.boolean(),
        hasRowsOfErrors: try row.boolean()),
      locks: PostgresDiagnosis.Locks(
        perTransaction: Int(try row.integer()), transactions: Int(try row.integer()),
        partitions: Int(try row.integer()),
        perStatement: Int(try row.integer()), sessions: Int(try row.integer())),
      replication: replication)
  }

  /// In the order in which `diagnose` reads it.
  private static let diagnosis: PostgresQuery =
    """
    SELECT current_setting('server_version'), current_setting('server_version_num')::integer,
      current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
      current_setting('synchronous_commit') NOT IN ('off', 'local'),
      (SELECT sum(numbackends)::integer FROM pg_stat_database), current_setting('max_connections')::integer,
      pg_is_in_recovery(), (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
      coalesce((SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl), ''),
      current_setting('log_statement') IN ('mod', 'all') OR current_setting('log_min_duration_statement') <> '-1'
        OR current_setting('log_min_duration_sample', true) <> '-1'
        OR current_setting('log_transaction_sample_rate', true) <> '0'
        OR coalesce(current_setting('auto_explain.log_min_duration', true), '-1') <> '-1',
      coalesce(current_setting('log_parameter_max_length', true), '-1') <> '0',
      coalesce(current_setting('log_parameter_max_length_on_error', true), '0') <> '0',
      current_setting('log_error_verbosity') <> 'terse',
      current_setting('max_locks_per_transaction')::integer,
      current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer,
      p.partitions::integer, (p.partitions + p.indexes)::integer + 2,
      (
        SELECT count(*)::integer FROM pg_stat_activity
        WHERE application_name = 'relay' AND datname = current_database()
      )
    FROM (
      SELECT count(DISTINCT i.inhrelid) AS partitions, count(x.indexrelid) AS indexes
      FROM pg_inherits AS i LEFT JOIN pg_index AS x ON x.indrelid = i.inhrelid
      WHERE i.inhparent IN (to_regclass('messages'), to_regclass('acknowledged'))
    ) AS p
    """

  private func replication() async throws(StoreError) -> PostgresDiagnosis.Replication {
    // Base backups are senders too.
    let found = try await read(
      "diagnose_replication",
      """
      SELECT current_setting('synchronous_standby_names'), coalesce(r.pid, 0), coalesce(r.application_name, ''),
        coalesce(r.state, ''), coalesce(r.sync_state, '')
      FROM (SELECT) AS one LEFT JOIN pg_stat_replication AS r ON r.state IS DISTINCT FROM 'backup'
      ORDER BY r.application_name, r.pid
      """)
    var names = ""
    var standbys: [PostgresDiagnosis.Replication.Standby] = []
    for index in found.rows {
      var row = found.cursor(row: index)
      names = try row.text()
      guard try row.integer() != 0 else { continue }
      let fields = [try row.text(), try row.text(), try row.text()].map { $0.isEmpty ? nil : $0 }
      standbys.append(
        PostgresDiagnosis.Replication.Standby(name: fields[0], state: fields[1], synchrony: fields[2]))
    }
    return PostgresDiagnosis.Replication(
      primary: maintenance.primary.place?.description ?? "unknown", hosts: maintenance.target.hosts().count,
      synchronousNames: names, standbys: standbys)
  }

  private func way(encryption: String) -> PostgresDiagnosis.Way {
    PostgresDiagnosis.Way(
      encryption: encryption.isEmpty ? nil : encryption, sslMode: maintenance.target.sslMode,
      isLocal: maintenance.target.isLocal)
  }

  /// Why there is no connection, as libpq says it: hosts and users, no password; nil when there is one.
  package var connectFault: String? { reads.connectFault }
}
