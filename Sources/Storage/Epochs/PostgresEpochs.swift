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

  package func epoch() async throws(StoreError) -> Int64 {
    let result = try await read(.prepared("epoch_now", "SELECT value FROM epochs"))
    guard result.rowCount == 1 else { throw .corrupted(reason: "the table epochs lacks its row") }
    var row = result.cursor(row: 0)
    return try row.bigint()
  }

  /// Millions of keys go at once, and to the servers that stand by as well. It waits for draws under way, but not for
  /// long: others wait behind it meanwhile. Then it is `.unavailable`, and the caller comes again later.
  package func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration)
    async throws(StoreError)
  {
    _ = try await writeBulk([
      PostgresStep(.prepared("set_aside_patience", "SELECT set_config('lock_timeout', '200ms', true)")),
      PostgresStep(.prepared("set_aside", "TRUNCATE one_time_prekeys")),
      PostgresStep(
        .prepared("set_aside_epoch", "UPDATE epochs SET value = greatest(value, $1::bigint)"),
        PostgresParameters { $0.add(bigint: floor) }),
      // Another number than any that was given before, also after the backup that was restored: it follows the clock, and
      // witnesses of the epoch where the clock stepped back.
      PostgresStep(
        .prepared(
          "set_aside_listing",
          """
          UPDATE revisions
          SET value = greatest(value + 1, $1::bigint, floor(extract(epoch FROM now()) * 1000)::bigint)
          WHERE subject = 'listing-generation'
          """),
        PostgresParameters { $0.add(bigint: floor) }),
      Self.noteStep(RestoreNotes.setAsideKind, word.text, behind),
      Self.forgetStep(RestoreNotes.claimKind),
    ])
  }

  /// Without a lock where nothing rises, which is the rule. Else with the directory's long lists, since it may wait for
  /// one: a merge holds the peer's row.
  package func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    let known = try await read(
      .prepared("known_epoch", "SELECT witnessed_epoch FROM peers WHERE name = $1::text"),
      PostgresParameters { $0.add(text: peer.text) })
    guard known.rowCount == 1 else { return nil }
    var found = known.cursor(row: 0)
    let highest = try found.bigint()
    return highest < epoch ? try await raiseEpoch(to: epoch, of: peer) : highest
  }

  private func raiseEpoch(to epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
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
