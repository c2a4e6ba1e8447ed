package import RelayCore

// A row is locked in a step of its own: the step behind it sees what the former holder of the lock wrote.

extension PostgresStorage {
  package func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64) {
    let results = try await write([
      PostgresStep("epoch", "SELECT value FROM epochs FOR UPDATE"),
      PostgresStep("advance_epoch", "UPDATE epochs SET value = greatest(value + 1, \(floor)) RETURNING value"),
    ])
    return (try Self.epoch(in: results[0]), try Self.epoch(in: results[1]))
  }

  package func epoch() async throws(StoreError) -> Int64 {
    try Self.epoch(in: await read("epoch_now", "SELECT value FROM epochs"))
  }

  private static func epoch(in result: PostgresResult) throws(StoreError) -> Int64 {
    guard let epoch = try result.first({ (row) throws(StoreError) in try row.bigint() }) else {
      throw .corrupted(reason: "the table epochs lacks its row")
    }
    return epoch
  }

  /// Millions of keys go at once, and to the servers that stand by as well. It waits for draws under way, but not for
  /// long: others wait behind it meanwhile. Then it is `.unavailable`, and the caller comes again later.
  package func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration)
    async throws(StoreError)
  {
    _ = try await writeBulk([
      // In a distributed store the servers of shards lock too. To others this is a word without meaning.
      PostgresStep(.once("SET LOCAL citus.propagate_set_commands = 'local'")),
      PostgresStep(.once("SET LOCAL lock_timeout = '200ms'")),
      PostgresStep("set_aside", "TRUNCATE one_time_prekeys"),
      PostgresStep("set_aside_epoch", "UPDATE epochs SET value = greatest(value, \(floor))"),
      PostgresStep(once: PostgresNumbering.leap),
      // Another number than any that was given before, also after the backup that was restored: it follows the clock,
      // and witnesses of the epoch where the clock stepped back.
      PostgresStep(
        "set_aside_listing",
        """
        UPDATE revisions
        SET value = greatest(value + 1, \(floor), floor(extract(epoch FROM now()) * 1000)::bigint)
        WHERE subject = 'listing-generation'
        """),
      Self.noteStep(RestoreNotes.setAsideKind, word.text, behind),
      Self.forgetStep(RestoreNotes.claimKind),
    ])
  }

  /// Without a lock where nothing rises, which is the rule. Else with the directory's long lists, since it may wait for
  /// one: a merge holds the peer's row.
  package func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    let known = try await read("known_epoch", "SELECT witnessed_epoch FROM peers WHERE name = \(peer)")
    guard let highest = try known.first({ (row) throws(StoreError) in try row.bigint() }) else { return nil }
    return highest < epoch ? try await raiseEpoch(to: epoch, of: peer) : highest
  }

  private func raiseEpoch(to epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    let epoch = PostgresParameter(epoch)
    let results = try await writeBulk([
      PostgresStep("witnessed_epoch", "SELECT witnessed_epoch FROM peers WHERE name = \(peer) FOR UPDATE"),
      PostgresStep(
        "remember_epoch",
        "UPDATE peers SET witnessed_epoch = \(epoch) WHERE name = \(peer) AND witnessed_epoch < \(epoch)"),
    ])
    return try results[0].first { (row) throws(StoreError) in try row.bigint() }
  }
}
