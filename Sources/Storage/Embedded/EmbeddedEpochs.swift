import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func advanceEpoch(atLeast floor: Int64) async throws(StoreError) -> (before: Int64, after: Int64) {
    try await write { db in
      let before = try Self.epoch(in: db)
      // The highest number has no next one, whoever claimed it.
      let after = max(before, before &+ 1, floor)
      try Self.setEpoch(after, in: db)
      return (before, after)
    }
  }

  package func setAsideOneTimePreKeys(epoch floor: Int64) async throws(StoreError) {
    let now = clock.now().millis
    try await write { db in
      try db.run("DELETE FROM prekeys")
      try Self.setEpoch(max(Self.epoch(in: db), floor), in: db)
      // Another number than any that was given before, also after the backup that was restored: it follows the clock, and
      // witnesses of the epoch where the clock stepped back.
      let generation = try db.revision(.listingGeneration)
      try db.set(.listingGeneration, to: max(generation &+ 1, floor, now))
    }
  }

  package func rememberEpoch(_ epoch: Int64, of peer: RelayName) async throws(StoreError) -> Int64? {
    try await write { db in
      let known = try db.row("SELECT witnessed_epoch FROM peers WHERE name = ?", [peer.text])
      guard let former = try known?.integer(0) else { return nil }
      if epoch > former { try db.run("UPDATE peers SET witnessed_epoch = ? WHERE name = ?", [epoch, peer.text]) }
      return former
    }
  }

  private static func epoch(in db: Database) throws -> Int64 {
    try Fields.valid(db.row("SELECT value FROM epochs WHERE only_row = 1")).integer(0)
  }
  private static func setEpoch(_ epoch: Int64, in db: Database) throws {
    try db.run("UPDATE epochs SET value = ? WHERE only_row = 1", [epoch])
  }
}
