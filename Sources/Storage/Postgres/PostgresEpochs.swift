package import RelayCore

// A row is locked in a step of its own: the step behind it sees what the former holder of the lock wrote.

extension PostgresStorage {
  package func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64) {
    let results = try await write([
      PostgresStep(.prepared("epoch", "SELECT value FROM epochs FOR UPDATE")),
      PostgresStep(
        .prepared("advance_epoch", "UPDATE epochs SET value = greatest(value + 1, $1::bigint) RETURNING value"),
        PostgresParameters { $0.add(bigint: floor) }),
    ])
    guard results.count == 2, results.allSatisfy({ $0.rowCount == 1 }) else {
      throw .corrupted(reason: "the table epochs lacks its row")
    }
    var (before, after) = (results[0].cursor(row: 0), results[1].cursor(row: 0))
    return (try before.bigint(), try after.bigint())
  }

  /// Millions of keys go at once, and to the servers that stand by as well. It waits for draws under way and is
  /// `.unavailable` when they take too long.
  package func setAsideOneTimePreKeys(epoch floor: Int64) async throws(StoreError) {
    _ = try await writeBulk([
      PostgresStep(.prepared("set_aside", "TRUNCATE one_time_prekeys")),
      PostgresStep(
        .prepared("set_aside_epoch", "UPDATE epochs SET value = greatest(value, $1::bigint)"),
        PostgresParameters { $0.add(bigint: floor) }),
    ])
  }

  /// With the directory's long lists, since it may wait for one: a merge holds the peer's row.
  package func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    let results = try await writeBulk([
      PostgresStep(
        .prepared("witnessed_epoch", "SELECT witnessed_epoch FROM peers WHERE name = $1::text FOR UPDATE"),
        PostgresParameters { $0.add(text: peer.text) }),
      PostgresStep(
        .prepared(
          "remember_epoch",
          "UPDATE peers SET witnessed_epoch = $2::bigint WHERE name = $1::text AND witnessed_epoch < $2::bigint"),
        PostgresParameters {
          $0.add(text: peer.text)
          $0.add(bigint: epoch)
        }),
    ])
    guard let former = results.first, former.rowCount == 1 else { return nil }
    var row = former.cursor(row: 0)
    return try row.bigint()
  }
}

// MARK: - Server secrets

extension PostgresStorage {
  package func serverSecret(_ name: String, orStore candidate: [UInt8]) async throws(StoreError) -> [UInt8] {
    let results = try await write([
      PostgresStep(
        .prepared(
          "store_server_secret",
          "INSERT INTO server_secrets (name, secret) VALUES ($1::text, $2::bytea) ON CONFLICT (name) DO NOTHING"),
        PostgresParameters {
          $0.add(text: name)
          $0.add(bytea: candidate)
        }),
      PostgresStep(
        .prepared("server_secret", "SELECT secret FROM server_secrets WHERE name = $1::text"),
        PostgresParameters { $0.add(text: name) }),
    ])
    guard let found = results.last, found.rowCount == 1 else {
      throw .corrupted(reason: "the table server_secrets lacks a row")
    }
    var row = found.cursor(row: 0)
    return try row.bytes()
  }
}
