// The outputs of registered contacts. What may take long goes over the connection for that: nobody who looks up or registers
// waits for the work on them.

package import RelayCore

extension PostgresStorage {
  package func obliviousProgress() async throws(StoreError) -> ObliviousProgress? {
    let result = try await read(
      .prepared(
        "oblivious_progress",
        "SELECT key, generation, revision, position, ranges_done, swept, followed, step FROM oblivious_progress"))
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    let key = ObliviousKeyID(bits: UInt64(bitPattern: try row.bigint()))
    let place = DirectoryPlace(
      generation: try row.bigint(), revision: UInt64(bitPattern: try row.bigint()), position: try row.bigint())
    return ObliviousProgress(
      key: key, place: place, rangesDone: Int(try row.integer()), isSwept: try row.boolean(),
      followed: Timestamp(millis: try row.bigint()), step: try row.bigint())
  }

  /// One statement: what changes depends on whether the step could be taken.
  package func writeOutputs(
    _ change: ObliviousChange, _ progress: ObliviousProgress, over step: Int64?
  ) async throws(StoreError) -> Bool {
    let tokens = try await tokens()
    let (removed, added) = (try tokens.seal(change.removed), try tokens.seal(change.added.lazy.map(\.token)))
    let results = try await writeBulk([
      PostgresStep(
        .prepared(
          "write_outputs",
          """
          WITH turn AS (
              INSERT INTO oblivious_progress AS p
                (key, generation, revision, position, ranges_done, swept, followed, step)
              VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::integer, $6::boolean, $7::bigint, $8::bigint)
              ON CONFLICT (singleton) DO UPDATE SET key = excluded.key, generation = excluded.generation,
                revision = excluded.revision, position = excluded.position, ranges_done = excluded.ranges_done,
                swept = excluded.swept, followed = excluded.followed, step = excluded.step
              WHERE p.step = $9::bigint
              RETURNING p.key
            ),
            removed AS (
              DELETE FROM oblivious_outputs AS o USING turn WHERE o.token = ANY ($10::bytea[]) RETURNING o.token
            ),
            added AS (
              INSERT INTO oblivious_outputs (token, key, output)
              SELECT a.token, turn.key, a.output
              FROM turn CROSS JOIN unnest($11::bytea[], $12::bytea[]) AS a (token, output)
              ON CONFLICT (token) DO UPDATE SET key = excluded.key, output = excluded.output
              RETURNING token
            )
          SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM removed), (SELECT count(*) FROM added)
          """),
        PostgresParameters {
          $0.add(bigint: Int64(bitPattern: progress.key.bits))
          $0.add(bigint: progress.place.generation)
          $0.add(bigint: Int64(bitPattern: progress.place.revision))
          $0.add(bigint: progress.place.position)
          $0.add(integer: Int32(progress.rangesDone))
          $0.add(boolean: progress.isSwept)
          $0.add(bigint: progress.followed.millis)
          $0.add(bigint: progress.step)
          $0.add(bigint: step)
          $0.add(tokens: removed)
          $0.add(tokens: added)
          $0.add(byteas: change.added.map(\.output.bytes))
        })
    ])
    guard let result = results.first, result.rowCount == 1 else {
      throw .corrupted(reason: "a writing of outputs said nothing")
    }
    var row = result.cursor(row: 0)
    return try row.bigint() == 1
  }

  package func tokensWithoutOutput(
    among tokens: [ContactToken], under key: ObliviousKeyID
  ) async throws(StoreError) -> [ContactToken] {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(tokens)
    let result = try await readBulk(
      .prepared(
        "tokens_without_output",
        """
        SELECT DISTINCT a.token FROM unnest($1::bytea[]) AS a (token)
        WHERE NOT EXISTS (SELECT FROM oblivious_outputs AS o WHERE o.token = a.token AND o.key = $2::bigint)
        """),
      PostgresParameters {
        $0.add(tokens: stored)
        $0.add(bigint: Int64(bitPattern: key.bits))
      })
    return try Self.tokens(in: result, sealer)
  }

  package func tokensWithOutput(after token: ContactToken?, limit: Int) async throws(StoreError) -> [ContactToken] {
    let sealer = try await tokens()
    let after = try token.map { token throws(StoreError) in try sealer.seal(token) }
    let result = try await readBulk(
      .prepared(
        "tokens_with_output",
        "SELECT token FROM oblivious_outputs WHERE token > $1::bytea ORDER BY token LIMIT $2::bigint"),
      PostgresParameters {
        $0.add(token: after ?? .beforeAll)
        $0.add(bigint: Int64(limit))
      })
    return try Self.tokens(in: result, sealer)
  }

  /// A row also where there are no outputs, of NULL.
  package func outputs(
    under key: ObliviousKeyID, in range: ClosedRange<ObliviousOutput>, limit: Int, followedSince followed: Timestamp
  ) async throws(StoreError) -> [ContactOutput]? {
    let sealer = try await tokens()
    let result = try await readBulk(
      .prepared(
        "oblivious_outputs",
        """
        SELECT o.output, o.token FROM oblivious_progress AS p
        LEFT JOIN LATERAL (
          SELECT output, token FROM oblivious_outputs
          WHERE key = $1::bigint AND output BETWEEN $2::bytea AND $3::bytea
          ORDER BY output LIMIT $4::bigint
        ) AS o ON true
        WHERE p.key = $1::bigint AND p.ranges_done = $5::integer AND p.followed >= $6::bigint
          AND p.generation = (SELECT value FROM revisions WHERE subject = 'listing-generation')
        ORDER BY o.output
        """),
      PostgresParameters {
        $0.add(bigint: Int64(bitPattern: key.bits))
        $0.add(bytea: range.lowerBound.bytes)
        $0.add(bytea: range.upperBound.bytes)
        $0.add(bigint: Int64(limit))
        $0.add(integer: Int32(DirectoryRange.all.count))
        $0.add(bigint: followed.millis)
      })
    guard result.rowCount > 0 else { return nil }
    var (outputs, stored): ([ObliviousOutput], [StoredToken]) = ([], [])
    outputs.reserveCapacity(result.rowCount)
    stored.reserveCapacity(result.rowCount)
    for index in result.rows {
      var row = result.cursor(row: index)
      guard !row.isNull else { break }
      let output = ObliviousOutput(bytes: try row.bytes())
      outputs.append(try row.required(output))
      stored.append(try row.token())
    }
    return zip(try sealer.open(stored), outputs).map { ContactOutput($0, $1) }
  }
}
