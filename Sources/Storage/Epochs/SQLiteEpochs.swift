import GRDB
package import RelayCore

extension SQLiteStorage {
  package func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64) {
    try await write { db in
      let before = try Self.epoch(in: db)
      // The highest number has no next one, whoever claimed it.
      let after = max(before, before &+ 1, floor)
      try Self.setEpoch(after, in: db)
      return (before, after)
    }
  }

  package func epoch() async throws(StoreError) -> Int64 { try await read { db in try Self.epoch(in: db) } }

  package func setAsideOneTimePreKeys(epoch floor: Int64, by word: RestoreWord, behind: Duration)
    async throws(StoreError)
  {
    let now = clock.now()
    try await write { db in
      try db.run("DELETE FROM one_time_prekeys")
      // Apps ask for the notifications behind the last one that they have seen: none may get its number again. At
      // random, since several stores may go on from one backup. Numbers have 18 digits.
      let leap = Int64.random(in: 1...256) << 32
      try db.run("UPDATE notification_numbers SET last = min(last + \(leap), 999999999999999999) WHERE last > 0")
      try Self.setEpoch(max(Self.epoch(in: db), floor), in: db)
      // Another number than any that was given before, also after the backup that was restored: it follows the clock,
      // and witnesses of the epoch where the clock stepped back.
      let generation = try db.revision(.listingGeneration)
      try db.set(.listingGeneration, to: max(generation &+ 1, floor, now.millis))
      try Self.note(RestoreNotes.setAsideKind, word.text, behind, at: now, in: db)
      try Self.forget(RestoreNotes.claimKind, in: db)
    }
  }

  package func noteRestoreClaim(by peer: RelayName?, behind: Duration) async throws(StoreError) {
    let now = clock.now()
    try await write { db in
      guard let peer else { return try Self.forget(RestoreNotes.claimKind, in: db) }
      try Self.note(RestoreNotes.claimKind, peer.text, behind, at: now, in: db)
    }
  }

  package func noteHeldBack(_ isHeldBack: Bool) async throws(StoreError) {
    let (kind, now) = (RestoreNotes.heldBackKind, clock.now())
    try await write { db in
      if isHeldBack { try Self.note(kind, "", .zero, at: now, in: db) } else { try Self.forget(kind, in: db) }
    }
  }

  package func restoreNotes() async throws(StoreError) -> RestoreNotes {
    try await read { db in
      func note(_ kind: String) throws -> RestoreNotes.Note? {
        try db.row("SELECT word, behind, noted FROM store_restores WHERE kind = \(kind)")
          .map(RestoreNotes.Note.init(row:))
      }
      return try RestoreNotes(
        setAside: note(RestoreNotes.setAsideKind), claim: note(RestoreNotes.claimKind),
        heldBack: note(RestoreNotes.heldBackKind))
    }
  }

  private static func note(
    _ kind: String, _ word: String, _ behind: Duration, at now: Timestamp, in db: Database
  ) throws {
    try db.run(
      """
      INSERT OR REPLACE INTO store_restores (kind, word, behind, noted)
      VALUES (\(kind), \(word), \(Int64(behind / .milliseconds(1))), \(now))
      """)
  }

  private static func forget(_ kind: String, in db: Database) throws {
    try db.run("DELETE FROM store_restores WHERE kind = \(kind)")
  }

  package func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    try await write { db in
      let known = try db.row("SELECT witnessed_epoch FROM peers WHERE name = \(peer)")
      guard let former = try known?.integer(0) else { return nil }
      if epoch > former { try db.run("UPDATE peers SET witnessed_epoch = \(epoch) WHERE name = \(peer)") }
      return former
    }
  }

  static func epoch(in db: Database) throws -> Int64 {
    try Fields.valid(db.row("SELECT value FROM epochs WHERE singleton = 1")).integer(0)
  }
  private static func setEpoch(_ epoch: Int64, in db: Database) throws {
    try db.run("UPDATE epochs SET value = \(epoch) WHERE singleton = 1")
  }
}

extension RestoreNotes.Note {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(word: try row.text(0), behind: .milliseconds(try row.integer(1)), noted: try row.time(2))
  }
}
