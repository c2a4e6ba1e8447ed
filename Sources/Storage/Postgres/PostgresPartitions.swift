// The days that `messages` and `acknowledged` are divided by. All days are those of UTC on the database's clock, so
// that every process means the same one.

import RelayCore

/// Makes room for the days to come and drops the days past.
enum PostgresPartitions {
  /// - Returns: whether a table is missing or can go. Needs no lock.
  static func needsWork(retention: Duration, over connection: PostgresConnection) async throws(StoreError) -> Bool {
    do throws(PostgresError) {
      if try await connection.read(.once(missing)).rowCount > 0 { return true }
      return try await connection.read(.once(expired(retention))).rowCount > 0
    } catch {
      throw error.storeError
    }
  }

  /// Creates the partitions of today and the days ahead that are not there. To be called with the lock held.
  ///
  /// A partition is attached, not created in its place: that stops neither readers nor writers of the other days.
  static func createMissing(over connection: PostgresConnection) async throws(StoreError) {
    guard let result = try await connection.run(missing) else { return }
    for index in result.rows {
      var row = result.cursor(row: index)
      let (parent, name, day, next) = (try row.text(), try row.text(), try row.text(), try row.text())
      try await connection.run(
        "CREATE TABLE \(name) (LIKE \(parent) INCLUDING DEFAULTS INCLUDING INDEXES INCLUDING STORAGE)",
        "ALTER TABLE \(parent) ATTACH PARTITION \(name) FOR VALUES FROM ('\(day)') TO ('\(next)')")
    }
  }

  /// Drops what no retry and no reader can want any more. To be called with the lock held.
  /// - Returns: how many days of messages were dropped.
  static func dropExpired(retention: Duration, over connection: PostgresConnection) async throws(StoreError) -> Int {
    guard let result = try await connection.run(expired(retention)) else { return 0 }
    var days = 0
    for index in result.rows {
      var row = result.cursor(row: index)
      let (parent, name) = (try row.text(), try row.text())
      try await connection.run("DROP TABLE \(name)")
      if parent == "messages" { days += 1 }
    }
    return days
  }

  private static let daysAhead = 3

  /// Columns: table, partition, its day, the day after.
  private static let missing = """
    SELECT parent.name, parent.name || to_char(day, '_YYYYMMDD'), to_char(day, 'YYYY-MM-DD'),
      to_char(day + 1, 'YYYY-MM-DD')
    FROM (VALUES ('messages'), ('acknowledged')) AS parent (name)
    CROSS JOIN generate_series(0, \(daysAhead)) AS ahead
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date + ahead) AS calendar (day)
    WHERE to_regclass(parent.name || to_char(day, '_YYYYMMDD')) IS NULL
    """

  /// Columns: table, partition; the oldest first. `acknowledged` outlives yesterday never, `messages` the retention.
  private static func expired(_ retention: Duration) -> String {
    """
    SELECT parent.name, partition.relname::text
    FROM (
      VALUES ('messages', (now() AT TIME ZONE 'UTC' - interval '\(retention.components.seconds) seconds')::date),
        ('acknowledged', (now() AT TIME ZONE 'UTC')::date - 1)
    ) AS parent (name, first_kept)
    JOIN pg_inherits ON inhparent = to_regclass(parent.name)
    JOIN pg_class AS partition ON partition.oid = inhrelid
    WHERE partition.relname::text COLLATE "C" < parent.name || to_char(first_kept, '_YYYYMMDD')
    ORDER BY partition.relname
    """
  }
}
