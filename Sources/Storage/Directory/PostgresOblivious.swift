// The outputs of registered contacts. Long work on them goes over the connection for that, so that look-ups and
// registrations do not wait for it.

package import RelayCore

extension PostgresStorage {
  package func obliviousProgress() async throws(StoreError) -> ObliviousProgress? {
    let result = try await read(
      "oblivious_progress",
      "SELECT key, generation, revision, position, ranges_done, swept, followed, step FROM oblivious_progress")
    return try result.first(ObliviousProgress.init(row:))
  }

  /// One statement: what changes depends on whether the step could be taken.
  package func writeOutputs(
    _ change: ObliviousChange, _ progress: ObliviousProgress, over step: Int64?
  ) async throws(StoreError) -> Bool {
    let tokens = try await tokens()
    let (removed, added) = (try tokens.seal(change.removed), try tokens.seal(change.added.lazy.map(\.token)))
    let write = PostgresStep(
      "write_outputs",
      """
      WITH turn AS (
          INSERT INTO oblivious_progress AS p
            (key, generation, revision, position, ranges_done, swept, followed, step)
          VALUES (
            \(Int64(bitPattern: progress.key.bits)), \(progress.place.generation),
            \(Int64(bitPattern: progress.place.revision)), \(progress.place.position), \(Int32(progress.rangesDone)),
            \(progress.isSwept), \(progress.followed), \(progress.step))
          ON CONFLICT (singleton) DO UPDATE SET key = excluded.key, generation = excluded.generation,
            revision = excluded.revision, position = excluded.position, ranges_done = excluded.ranges_done,
            swept = excluded.swept, followed = excluded.followed, step = excluded.step
          WHERE p.step = \(step)
          RETURNING p.key
        ),
        removed AS (
          DELETE FROM oblivious_outputs AS o USING turn WHERE o.token = ANY (\(each: removed)) RETURNING o.token
        ),
        added AS (
          INSERT INTO oblivious_outputs (token, key, output)
          SELECT a.token, turn.key, a.output
          FROM turn
          CROSS JOIN unnest(\(each: added), \(each: change.added.lazy.map(\.output.bytes))) AS a (token, output)
          ON CONFLICT (token) DO UPDATE SET key = excluded.key, output = excluded.output
          RETURNING token
        )
      SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM removed), (SELECT count(*) FROM added)
      """)
    guard let turns = try await writeBulk([write])[0].first({ (row) throws(StoreError) in try row.bigint() }) else {
      throw .corrupted(reason: "a writing of outputs said nothing")
    }
    return turns == 1
  }

  package func tokensWithoutOutput(
    among tokens: [ContactToken], under key: ObliviousKeyID
  ) async throws(StoreError) -> [ContactToken] {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(tokens)
    let result = try await readBulk(
      "tokens_without_output",
      """
      SELECT DISTINCT a.token FROM unnest(\(each: stored)) AS a (token)
      WHERE NOT EXISTS (
        SELECT FROM oblivious_outputs AS o WHERE o.token = a.token AND o.key = \(Int64(bitPattern: key.bits)))
      """)
    return try Self.tokens(in: result, sealer)
  }

  package func tokensWithOutput(after token: ContactToken?, limit: Int) async throws(StoreError) -> [ContactToken] {
    let sealer = try await tokens()
    let after = try token.map { token throws(StoreError) in try sealer.seal(token) }
    let result = try await readBulk(
      "tokens_with_output",
      """
      SELECT token FROM oblivious_outputs WHERE token > \(after ?? .beforeAll) ORDER BY token LIMIT \(Int64(limit))
      """)
    return try Self.tokens(in: result, sealer)
  }

  /// A row also where there are no outputs, of NULL.
  package func outputs(
    under key: ObliviousKeyID, in range: ClosedRange<ObliviousOutput>, limit: Int, followedSince followed: Timestamp
  ) async throws(StoreError) -> [ContactOutput]? {
    let sealer = try await tokens()
    let key = PostgresParameter(Int64(bitPattern: key.bits))
    let result = try await readBulk(
      "oblivious_outputs",
      """
      SELECT o.output, o.token FROM oblivious_progress AS p
      LEFT JOIN LATERAL (
        SELECT output, token FROM oblivious_outputs
        WHERE key = \(key) AND output BETWEEN \(range.lowerBound.bytes) AND \(range.upperBound.bytes)
        ORDER BY output LIMIT \(Int64(limit))
      ) AS o ON true
      WHERE p.key = \(key) AND p.ranges_done = \(Int32(DirectoryRange.all.count)) AND p.followed >= \(followed)
        AND p.generation = (SELECT value FROM revisions WHERE subject = 'listing-generation')
      ORDER BY o.output
      """)
    guard result.rowCount > 0 else { return nil }
    let rows = try result.all(StoredOutput.init(optional:)).compactMap { $0 }
    return zip(try sealer.open(rows.map(\.token)), rows).map { ContactOutput($0, $1.output) }
  }

  private struct StoredOutput {
    let output: ObliviousOutput
    let token: StoredToken

    /// nil for the row of NULLs.
    init?(optional row: inout PostgresRow) throws(StoreError) {
      guard !row.isNull else { return nil }
      let output = ObliviousOutput(bytes: try row.bytes())
      self.output = try row.required(output)
      token = try row.token()
    }
  }
}

extension ObliviousProgress {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let key = ObliviousKeyID(bits: UInt64(bitPattern: try row.bigint()))
    let place = DirectoryPlace(
      generation: try row.bigint(), revision: UInt64(bitPattern: try row.bigint()), position: try row.bigint())
    self.init(
      key: key, place: place, rangesDone: Int(try row.integer()), isSwept: try row.boolean(),
      followed: try row.timestamp(), step: try row.bigint())
  }
}
