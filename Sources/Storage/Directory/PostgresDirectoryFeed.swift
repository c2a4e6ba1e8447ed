// The feed of changes to the whole directory, which triggers write (`DirectoryTriggers`), and the questions that its
// readers ask after it. All of it goes over a connection of its own, so a merge that waits for a lock delays no feed.
//
// Changes are keyed by their transactions' numbers. A transaction gets its number when it begins to write, not when
// it commits. Below a snapshot's xmin every change is committed and seen, or will never be there. From xmin on, more
// changes may appear between those that are seen. So the next reading begins at xmin again.

package import RelayCore

extension PostgresStorage {
  package func directoryPlace() async throws(StoreError) -> DirectoryPlace {
    let result = try await readFeed(
      "directory_place",
      """
      SELECT value, pg_snapshot_xmin(pg_current_snapshot()) FROM revisions WHERE subject = 'listing-generation'
      """)
    guard let place = try result.first(DirectoryPlace.init(row:)) else {
      throw .corrupted(reason: "the table revisions lacks a row")
    }
    return place
  }

  /// One statement, so that rows and xmin are of one snapshot. Rows that a restored dump brought along may have
  /// numbers that this server has yet to give out: they are none of its changes, and such a mark of what was forgotten
  /// is none either.
  package func directoryChanges(after place: DirectoryPlace, limit: Int) async throws(StoreError) -> DirectoryChanges? {
    let tokens = try await tokens()
    let revision = PostgresParameter(PostgresTransaction(place.revision))
    let result = try await readFeed(
      "directory_changes",
      """
      WITH s AS MATERIALIZED (
        SELECT pg_snapshot_xmin(pg_current_snapshot()) AS settled, pg_snapshot_xmax(pg_current_snapshot()) AS unborn
      )
      SELECT s.settled, c.changed, c.id, c.token, c.peer
      FROM s CROSS JOIN revisions AS g CROSS JOIN revisions AS d
      LEFT JOIN LATERAL (
        SELECT changed, id, token, peer FROM directory_changes
        WHERE (changed, id) > (\(revision), \(place.position)) AND changed < s.unborn
        ORDER BY changed, id LIMIT \(Int64(limit))
      ) AS c ON true
      WHERE g.subject = 'listing-generation' AND g.value = \(place.generation)
        AND d.subject = 'directory-pruned'
        AND (d.value < \(Int64(bitPattern: place.revision)) OR d.value >= s.unborn::text::bigint)
        AND \(revision) <= s.unborn
      ORDER BY c.changed, c.id
      """)
    guard result.rowCount > 0 else { return nil }
    var changes: [DirectoryChange] = []
    changes.reserveCapacity(result.rowCount)
    var (settled, next) = (place, place)
    for index in result.rows {
      var row = result.cursor(row: index)
      settled = DirectoryPlace(generation: place.generation, revision: try row.transaction())
      // A row of NULLs says that nothing has changed.
      guard !row.isNull else { break }
      next = DirectoryPlace(
        generation: place.generation, revision: try row.transaction(), position: try row.bigint())
      changes.append(try DirectoryChange(row: &row, tokens, revision: next.revision))
    }
    let isPartial = changes.count == limit
    if !isPartial, next.isBehind(settled) { next = settled }
    return DirectoryChanges(
      changes: changes, next: next, fence: settled.isBehind(next) ? settled : next, isPartial: isPartial)
  }

  package func recentDirectoryChanges(limit: Int) async throws(StoreError) -> (
    changes: [DirectoryChange], since: DirectoryPlace
  ) {
    let tokens = try await tokens()
    let result = try await readFeed(
      "recent_directory_changes",
      """
      SELECT changed, token, peer FROM directory_changes
      WHERE changed < (SELECT pg_snapshot_xmax(pg_current_snapshot()))
      ORDER BY changed DESC, id DESC LIMIT \(Int64(limit))
      """)
    var changes = try result.all { (row) throws(StoreError) in
      let revision = try row.transaction()
      return try DirectoryChange(row: &row, tokens, revision: revision)
    }
    changes.reverse()
    // Afterwards: what was forgotten meanwhile is among the changes.
    let found = try await readFeed(
      "directory_beginning",
      """
      SELECT g.value,
        CASE WHEN d.value < pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN d.value ELSE 0 END
      FROM revisions AS g CROSS JOIN revisions AS d
      WHERE g.subject = 'listing-generation' AND d.subject = 'directory-pruned'
      """)
    guard let pruned = try found.first(DirectoryPlace.init(row:)) else {
      throw .corrupted(reason: "the table revisions lacks a row")
    }
    // The first transaction may have more of them.
    let first = changes.count == limit ? changes.first?.revision : nil
    return (changes, DirectoryPlace(generation: pruned.generation, revision: (first ?? pruned.revision) + 1))
  }

  /// Some at a time, the oldest first. The last change that was forgotten is remembered in the same transaction: a
  /// reader that needs it is told. Nothing is remembered of rows that are not this server's (`directoryChanges`).
  package func pruneDirectoryChanges(olderThan days: Int) async throws(StoreError) {
    let chunkRows: Int64 = 10_000
    while true {
      let step = Self.pruneStep(olderThan: days, rows: chunkRows)
      let counts = try await writeBulk([step])[0].first { (row) throws(StoreError) in
        (removed: try row.bigint(), foreign: try row.bigint())
      }
      guard let counts, counts.removed == chunkRows || counts.foreign == chunkRows else { return }
    }
  }

  private static func pruneStep(olderThan days: Int, rows: Int64) -> PostgresStep {
    let rows = PostgresParameter(rows)
    return PostgresStep(
      "prune_directory_changes",
      """
      WITH s AS MATERIALIZED (
          SELECT pg_snapshot_xmin(pg_current_snapshot()) AS settled,
            pg_snapshot_xmax(pg_current_snapshot()) AS unborn,
            floor(extract(epoch FROM now()) * 1000)::bigint - \(Int64(days)) * 86400000 AS kept
        ),
        first AS MATERIALIZED (
          SELECT changed, id, at FROM directory_changes
          WHERE changed < (SELECT settled FROM s) ORDER BY changed, id LIMIT \(rows)
        ),
        foreign_rows AS MATERIALIZED (
          SELECT changed, id, at FROM directory_changes
          WHERE changed >= (SELECT unborn FROM s) ORDER BY changed, id LIMIT \(rows)
        ),
        removed AS (
          DELETE FROM directory_changes AS c USING first AS f
          WHERE c.changed = f.changed AND c.id = f.id AND f.at < (SELECT kept FROM s)
          RETURNING c.changed
        ),
        foreign_removed AS (
          DELETE FROM directory_changes AS c USING foreign_rows AS f
          WHERE c.changed = f.changed AND c.id = f.id AND f.at < (SELECT kept FROM s)
          RETURNING c.changed
        ),
        noted AS (
          UPDATE revisions AS r
          SET value = CASE WHEN r.value < s.unborn::text::bigint THEN greatest(r.value, m.last) ELSE m.last END
          FROM s CROSS JOIN (SELECT max(changed::text::bigint) AS last FROM removed) AS m
          WHERE r.subject = 'directory-pruned' AND m.last IS NOT NULL
        )
      SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM foreign_removed)
      """)
  }
}

extension DirectoryPlace {
  /// For places of one generation.
  func isBehind(_ other: DirectoryPlace) -> Bool { (revision, position) < (other.revision, other.position) }
}

extension PostgresRow {
  /// Reads an `xid8`.
  mutating func transaction() throws(StoreError) -> UInt64 { UInt64(bitPattern: try bigint()) }
}

extension DirectoryPlace {
  /// Two columns: the generation, and a transaction's number.
  init(row: inout PostgresRow) throws(StoreError) {
    self.init(generation: try row.bigint(), revision: try row.transaction())
  }
}

extension DirectoryChange {
  /// Two columns, token and peer, of which one is there.
  fileprivate init(row: inout PostgresRow, _ tokens: TokenSealer, revision: UInt64) throws(StoreError) {
    if row.isNull {
      _ = row.optionalBytes()
      self.init(.peer(try row.relayName()), revision: revision)
    } else {
      self.init(.token(try tokens.open(row.token())), revision: revision)
    }
  }
}
