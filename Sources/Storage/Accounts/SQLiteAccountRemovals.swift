import GRDB
package import RelayCore

extension SQLiteStorage {
  package func removeAccount(
    _ number: AccountNumber, of installation: PasswordHash?, isBanned: Bool
  ) async throws(StoreError) -> AccountRemoval? {
    let mark = isBanned ? try await knownCodes.value(in: self).banMark(of: number) : nil
    let now = clock.now()
    return try await write { db -> AccountRemoval? in
      if let installation, try devices(of: number, in: db).first?.password != installation { return nil }
      if let mark {
        try db.run(
          "INSERT INTO banned_numbers (mark, banned) VALUES (\(mark), \(now)) ON CONFLICT (mark) DO NOTHING")
      }
      var removal = AccountRemoval()
      for purpose in [CodePurpose.registration, .linking] {
        removal.codes += try db.removed("DELETE FROM \(sql: purpose.table) WHERE account = \(number)")
      }
      removal.waiting = try db.removed("DELETE FROM messages WHERE account = \(number)")
      removal.acknowledged = try db.removed("DELETE FROM acknowledged WHERE account = \(number)")
      // Their devices would take them along, uncounted.
      removal.oneTimePreKeys = try db.removed("DELETE FROM one_time_prekeys WHERE account = \(number)")
      removal.devices = try db.removed("DELETE FROM devices WHERE account = \(number)")
      _ = try db.removed("DELETE FROM attachments WHERE account = \(number)")
      var isGone = false
      try Self.changeListing(of: number, in: db) {
        isGone = try db.removed("DELETE FROM accounts WHERE account = \(number)") == 1
      }
      return isGone ? removal : nil
    }
  }

  package func unban(_ number: AccountNumber) async throws(StoreError) -> Bool {
    let mark = try await knownCodes.value(in: self).banMark(of: number)
    return try await write { db in
      try db.run("DELETE FROM banned_numbers WHERE mark = \(mark)")
      return db.changesCount == 1
    }
  }

  package func isBanned(_ number: AccountNumber) async throws(StoreError) -> Bool {
    let mark = try await knownCodes.value(in: self).banMark(of: number)
    return try await read { db in try Self.isBanned(mark, in: db) }
  }

  static func isBanned(_ mark: StoredCode, in db: Database) throws -> Bool {
    try db.row("SELECT 1 FROM banned_numbers WHERE mark = \(mark)") != nil
  }

  package func bannedCount() async throws(StoreError) -> Int {
    try await read { db in try Int(Fields.valid(db.row("SELECT count(*) FROM banned_numbers")).integer(0)) }
  }

  package func attachments(of number: AccountNumber, limit: Int) async throws(StoreError) -> [AttachmentID] {
    try await read { db in
      try db.rows("SELECT id FROM attachments WHERE account = \(number) LIMIT \(limit)").map {
        try Fields.valid(AttachmentID($0.integer(0)))
      }
    }
  }

  /// Peers that are away for longer read the whole listing anew.
  func forgetUnlisted(at past: Timestamp) async throws(StoreError) {
    let end = past.adding(.zero - Listing.unlistedLife)
    try await write { db in
      let newest = try db.row("SELECT max(listing_revision) FROM unlisted_tokens WHERE ended < \(end)")?
        .optionalInteger(0)
      guard let newest else { return }
      try db.run("DELETE FROM unlisted_tokens WHERE ended < \(end)")
      try db.set(.listingPruned, to: max(newest, db.revision(.listingPruned)))
    }
  }
}

extension Database {
  /// - Returns: how many rows went.
  fileprivate func removed(_ statement: SQL) throws -> Int {
    try run(statement)
    return changesCount
  }
}
