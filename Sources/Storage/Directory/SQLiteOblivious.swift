import GRDB
package import RelayCore

extension SQLiteStorage {
  package func obliviousProgress() async throws(StoreError) -> ObliviousProgress? {
    try await read { db in
      try db.row(
        "SELECT key, generation, revision, position, ranges_done, swept, followed, step FROM oblivious_progress"
      ).map(ObliviousProgress.init(row:))
    }
  }

  package func writeOutputs(
    _ change: ObliviousChange, _ progress: ObliviousProgress, over step: Int64?
  ) async throws(StoreError) -> Bool {
    let (key, tokens) = (Int64(bitPattern: progress.key.bits), try await tokens())
    return try await write { db in
      try db.run(
        """
        INSERT INTO oblivious_progress
          (singleton, key, generation, revision, position, ranges_done, swept, followed, step)
        VALUES (1, \(key), \(progress.place.generation), \(Int64(bitPattern: progress.place.revision)),
          \(progress.place.position), \(progress.rangesDone), \(progress.isSwept), \(progress.followed),
          \(progress.step))
        ON CONFLICT (singleton) DO UPDATE SET key = excluded.key, generation = excluded.generation,
          revision = excluded.revision, position = excluded.position, ranges_done = excluded.ranges_done,
          swept = excluded.swept, followed = excluded.followed, step = excluded.step
        WHERE step = \(step)
        """)
      guard db.changesCount == 1 else { return false }
      for token in change.removed {
        try db.run("DELETE FROM oblivious_outputs WHERE token = \(tokens.seal(token))")
      }
      for added in change.added {
        try db.run(
          """
          INSERT INTO oblivious_outputs (token, key, output)
          VALUES (\(tokens.seal(added.token)), \(key), \(added.output.bytes))
          ON CONFLICT (token) DO UPDATE SET key = excluded.key, output = excluded.output
          """)
      }
      return true
    }
  }

  package func tokensWithoutOutput(
    among tokens: [ContactToken], under key: ObliviousKeyID
  ) async throws(StoreError) -> [ContactToken] {
    let wanted = Set(tokens)
    guard !wanted.isEmpty else { return [] }
    let (key, sealer) = (Int64(bitPattern: key.bits), try await self.tokens())
    return try await read { db in
      try wanted.filter { token in
        try db.row("SELECT 1 FROM oblivious_outputs WHERE token = \(sealer.seal(token)) AND key = \(key)") == nil
      }
    }
  }

  package func tokensWithOutput(after token: ContactToken?, limit: Int) async throws(StoreError) -> [ContactToken] {
    let tokens = try await tokens()
    return try await read { db in
      let after = try token.map { try tokens.seal($0) } ?? .beforeAll
      return try db.rows(
        "SELECT token FROM oblivious_outputs WHERE token > \(after) ORDER BY token LIMIT \(limit)"
      ).map { try tokens.open($0.token(0)) }
    }
  }

  package func outputs(
    under key: ObliviousKeyID, in range: ClosedRange<ObliviousOutput>, limit: Int, followedSince followed: Timestamp
  ) async throws(StoreError) -> [ContactOutput]? {
    let (key, tokens) = (Int64(bitPattern: key.bits), try await tokens())
    return try await read { db in
      let ready = try db.row(
        """
        SELECT 1 FROM oblivious_progress
        WHERE key = \(key) AND ranges_done = \(DirectoryRange.all.count) AND followed >= \(followed)
          AND generation = \(Self.directoryEnd(in: db).generation)
        """)
      guard ready != nil else { return nil }
      let rows = try db.rows(
        """
        SELECT output, token FROM oblivious_outputs
        WHERE key = \(key) AND output BETWEEN \(range.lowerBound.bytes) AND \(range.upperBound.bytes)
        ORDER BY output LIMIT \(limit)
        """)
      let opened = try tokens.open(rows.map { try $0.token(1) })
      return try zip(opened, rows).map { token, row in
        ContactOutput(token, try Fields.valid(ObliviousOutput(bytes: row.bytes(0))))
      }
    }
  }
}

extension ObliviousProgress {
  fileprivate init(row: Fields) throws(StoreError) {
    let place = DirectoryPlace(
      generation: try row.integer(1), revision: UInt64(bitPattern: try row.integer(2)), position: try row.integer(3))
    self.init(
      key: ObliviousKeyID(bits: UInt64(bitPattern: try row.integer(0))), place: place,
      rangesDone: Int(try row.integer(4)), isSwept: try row.flag(5), followed: try row.time(6),
      step: try row.integer(7))
  }
}
