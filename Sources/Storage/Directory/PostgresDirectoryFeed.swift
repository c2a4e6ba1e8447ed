// The feed of changes to the whole directory, which triggers write (`DirectoryTriggers`), and what its readers
// ask behind it. All of it goes over a connection of its own: a merge that waits for a lock keeps nobody's feed waiting.
//
// Changes are keyed by their transactions' numbers, which are given out when transactions begin to write and not when they
// commit. Of a snapshot, whatever is below its xmin is committed and seen or will never be there; from xmin on more may
// appear between what is seen. So the next reading begins at xmin again.

package import RelayCore

extension PostgresStorage {
  package func directoryPlace() async throws(StoreError) -> DirectoryPlace {
    let result = try await readFeed(
      .prepared(
        "directory_place",
        """
        SELECT value, pg_snapshot_xmin(pg_current_snapshot()) FROM revisions WHERE subject = 'listing-generation'
        """))
    guard result.rowCount == 1 else { throw .corrupted(reason: "the table revisions lacks a row") }
    var row = result.cursor(row: 0)
    return DirectoryPlace(generation: try row.bigint(), revision: try row.transaction())
  }

  /// One statement, so that rows and xmin are of one snapshot. Rows that a restored dump brought along may have numbers that
  /// this server has yet to give out: they are none of its changes, and such a mark of what was forgotten is none either.
  package func directoryChanges(after place: DirectoryPlace, limit: Int) async throws(StoreError) -> DirectoryChanges? {
    let tokens = try await tokens()
    let result = try await readFeed(
      .prepared(
        "directory_changes",
        """
        WITH s AS MATERIALIZED (
          SELECT pg_snapshot_xmin(pg_current_snapshot()) AS settled, pg_snapshot_xmax(pg_current_snapshot()) AS unborn
        )
        SELECT s.settled, c.changed, c.id, c.token, c.peer
        FROM s CROSS JOIN revisions AS g CROSS JOIN revisions AS d
        LEFT JOIN LATERAL (
          SELECT changed, id, token, peer FROM directory_changes
          WHERE (changed, id) > ($2::xid8, $3::bigint) AND changed < s.unborn
          ORDER BY changed, id LIMIT $4::bigint
        ) AS c ON true
        WHERE g.subject = 'listing-generation' AND g.value = $1::bigint
          AND d.subject = 'directory-pruned' AND (d.value < $5::bigint OR d.value >= s.unborn::text::bigint)
          AND $2::xid8 <= s.unborn
        ORDER BY c.changed, c.id
        """),
      PostgresParameters {
        $0.add(bigint: place.generation)
        $0.add(transaction: place.revision)
        $0.add(bigint: place.position)
        $0.add(bigint: Int64(limit))
        $0.add(transaction: place.revision)
      })
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
      changes.append(try row.directoryChange(tokens, revision: next.revision))
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
      .prepared(
        "recent_directory_changes",
        """
        SELECT changed, token, peer FROM directory_changes
        WHERE changed < (SELECT pg_snapshot_xmax(pg_current_snapshot()))
        ORDER BY changed DESC, id DESC LIMIT $1::bigint
        """), PostgresParameters { $0.add(bigint: Int64(limit)) })
    var changes: [DirectoryChange] = []
    changes.reserveCapacity(result.rowCount)
    for index in result.rows.reversed() {
      var row = result.cursor(row: index)
      let revision = try row.transaction()
      changes.append(try row.directoryChange(tokens, revision: revision))
    }
    // Afterwards: what was forgotten meanwhile is among the changes.
    let found = try await readFeed(
      .prepared(
        "directory_beginning",
        """
        SELECT g.value,
          CASE WHEN d.value < pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN d.value ELSE 0 END
        FROM revisions AS g CROSS JOIN revisions AS d
        WHERE g.subject = 'listing-generation' AND d.subject = 'directory-pruned'
        """))
    guard found.rowCount == 1 else { throw .corrupted(reason: "the table revisions lacks a row") }
    var row = found.cursor(row: 0)
    let (generation, pruned) = (try row.bigint(), try row.transaction())
    // Of the first transaction there may be more.
    let first = changes.count == limit ? changes.first?.revision : nil
    return (changes, DirectoryPlace(generation: generation, revision: (first ?? pruned) + 1))
  }

  /// Some at a time, the oldest first. What was forgotten last is remembered in the same transaction: a reader that needs it
  /// is told. Of rows that are not this server's (`directoryChanges`) nothing needs to be remembered.
  package func pruneDirectoryChanges(olderThan days: Int) async throws(StoreError) {
    let chunkRows: Int64 = 10_000
    while true {
      let results = try await writeBulk([
        PostgresStep(
          .prepared(
            "prune_directory_changes",
            """
            WITH s AS MATERIALIZED (
                SELECT pg_snapshot_xmin(pg_current_snapshot()) AS settled,
                  pg_snapshot_xmax(pg_current_snapshot()) AS unborn,
                  floor(extract(epoch FROM now()) * 1000)::bigint - $1::bigint * 86400000 AS kept
              ),
              first AS MATERIALIZED (
                SELECT changed, id, at FROM directory_changes
                WHERE changed < (SELECT settled FROM s) ORDER BY changed, id LIMIT $2::bigint
              ),
              foreign_rows AS MATERIALIZED (
                SELECT changed, id, at FROM directory_changes
                WHERE changed >= (SELECT unborn FROM s) ORDER BY changed, id LIMIT $2::bigint
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
            """),
          PostgresParameters {
            $0.add(bigint: Int64(days))
            $0.add(bigint: chunkRows)
          })
      ])
      guard let result = results.first, result.rowCount == 1 else { return }
      var row = result.cursor(row: 0)
      let (removed, foreign) = (try row.bigint(), try row.bigint())
      guard removed == chunkRows || foreign == chunkRows else { return }
    }
  }
}

extension DirectoryPlace {
  /// Of one generation.
  func isBehind(_ other: DirectoryPlace) -> Bool { (revision, position) < (other.revision, other.position) }
}

extension PostgresParameters {
  /// As `xid8`.
  fileprivate mutating func add(transaction number: UInt64) { add(bigint: Int64(bitPattern: number)) }
}

extension PostgresRow {
  /// Of an `xid8`.
  mutating func transaction() throws(StoreError) -> UInt64 { UInt64(bitPattern: try bigint()) }

  /// Two columns, token and peer, of which one is there.
  fileprivate mutating func directoryChange(
    _ tokens: TokenSealer, revision: UInt64
  ) throws(StoreError) -> DirectoryChange {
    guard isNull else {
      let token = try tokens.open(token())
      return DirectoryChange(.token(token), revision: revision)
    }
    _ = optionalBytes()
    return DirectoryChange(.peer(try relayName()), revision: revision)
  }
}
