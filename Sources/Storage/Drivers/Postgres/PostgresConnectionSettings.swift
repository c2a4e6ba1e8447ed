extension PostgresConnection {
  /// A connection's purpose, and the time that it and its server allow a statement.
  struct Settings: Sendable {
    /// For logs.
    let purpose: String
    /// The server gives a statement up first, so that the connection survives it.
    var statementTimeout: Duration = .seconds(9)
    var lockTimeout: Duration = .seconds(5)
    /// From submission to answer; then the connection is dropped: the server is gone or stuck.
    var deadline: Duration = .seconds(10)
    /// False for a connection with state of its own, a session lock: that would be lost unnoticed.
    var reconnects = true
    /// Plans for look-ups by key only. Statistics taken while a table was empty must not turn them into scans.
    var plansByKey = true

    /// A request to the server to keep values of statements, and rows that an error would show, out of its log.
    ///
    /// Most of it takes a superuser, or a right that one grants. A setting that the role may not change stays as it
    /// is, without a word in the log: `relay doctor` tells. Settings of missing extensions are taken as words without
    /// meaning.
    static let discretion = """
      DO $$
      DECLARE wish text[];
      BEGIN
        FOREACH wish SLICE 1 IN ARRAY ARRAY[
          ['log_parameter_max_length', '0'], ['log_parameter_max_length_on_error', '0'],
          ['log_error_verbosity', 'terse'], ['auto_explain.log_parameter_max_length', '0']]
        LOOP
          BEGIN
            PERFORM pg_catalog.set_config(wish[1], wish[2], false);
          EXCEPTION WHEN OTHERS THEN NULL;
          END;
        END LOOP;
      END $$
      """

    /// The settings that the server is told before anything else.
    var sql: String {
      var values = [
        ("statement_timeout", "\(statementTimeout.millis)"), ("lock_timeout", "\(lockTimeout.millis)"),
        ("synchronous_commit", "on"), ("TimeZone", "UTC"), ("default_transaction_isolation", "read committed"),
      ]
      if plansByKey {
        values += [
          ("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off"), ("jit", "off"),
        ]
      }
      let settings = values.map { "pg_catalog.set_config('\($0)', '\($1)', false)" }
      return """
        SELECT l.is_distributed, \(PostgresLayout.isLoaded), \(settings.joined(separator: ", ")), \(plans)
        FROM (SELECT \(PostgresLayout.question) AS is_distributed) AS l
        """
    }

    /// The settings that depend on the layout.
    ///
    /// Citus cannot plan a statement without its values, unless it goes to one shard. A session has one connection to
    /// each server of shards, and asks its shards one after the other: so all sessions lock rows of several shards in
    /// one order. Rows that the coordinator found travel beside them over a second connection, which is kept too: to
    /// open it anew took a third of the time of an append. A server that does not answer is not waited for as long as
    /// a statement may take.
    private var plans: String {
      let generic = plansByKey ? "pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false)" : "NULL"
      return """
        CASE WHEN l.is_distributed
          THEN pg_catalog.set_config('citus.multi_shard_modify_mode', 'sequential', false)
            || pg_catalog.set_config('citus.max_adaptive_executor_pool_size', '1', false)
            || pg_catalog.set_config('citus.max_cached_conns_per_worker', '2', false)
            || pg_catalog.set_config('citus.node_connection_timeout', '2000', false)
          ELSE \(generic) END
        """
    }
  }
}

extension Duration {
  fileprivate var millis: Int64 { Int64(self / .milliseconds(1)) }
}
