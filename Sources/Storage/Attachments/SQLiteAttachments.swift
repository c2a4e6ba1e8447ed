import GRDB
package import RelayCore

extension SQLiteStorage {
  package func addAttachment(
    _ attachment: Attachment, quota: AttachmentQuota
  ) async throws(StoreError) -> Bool {
    let (id, account) = (attachment.id, attachment.account)
    return try await write { db in
      // Added before: a client that had no answer may ask again.
      if let known = try db.row("SELECT account FROM attachments WHERE id = \(id.value)") {
        return try known.number(0) == account
      }
      let held = try Self.charged(to: account, except: id, in: db)
      guard quota.allows(attachment.bytes ?? 0, beside: held) else { return false }
      try db.run(
        """
        INSERT INTO attachments (id, account, bytes, expires)
        VALUES (\(id.value), \(account), \(attachment.bytes), \(attachment.expires))
        """)
      return true
    }
  }

  package func attachment(_ id: AttachmentID) async throws(StoreError) -> Attachment? {
    try await read { db in
      try db.row("SELECT id, account, bytes, expires FROM attachments WHERE id = \(id.value)")
        .map(Attachment.init(row:))
    }
  }

  package func finishAttachment(
    _ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota
  ) async throws(StoreError) -> AttachmentOutcome {
    try await write { db in
      let known = try db.row("SELECT account, bytes FROM attachments WHERE id = \(id.value)")
      guard let known else { return .unknown }
      guard known.optionalInteger(1) == nil else { return .alreadyFinished }
      let held = try Self.charged(to: known.number(0), except: id, in: db)
      guard quota.allows(bytes, beside: held) else { return .quotaExceeded }
      try db.run("UPDATE attachments SET bytes = \(bytes), expires = \(expires) WHERE id = \(id.value)")
      return .finished
    }
  }

  package func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [Attachment] {
    try await read { db in
      try db.rows(
        """
        SELECT id, account, bytes, expires FROM attachments WHERE expires < \(now) ORDER BY expires, id LIMIT \(limit)
        """
      ).map(Attachment.init(row:))
    }
  }

  package func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError) {
    guard !ids.isEmpty else { return }
    try await write { db in
      for id in ids { try db.run("DELETE FROM attachments WHERE id = \(id.value)") }
    }
  }

  /// - Returns: the bytes that the account's other attachments are charged with.
  private static func charged(to account: AccountNumber, except id: AttachmentID, in db: Database) throws -> Int64 {
    try Fields.valid(db.row(chargedQuery(to: account, except: id))).integer(0)
  }

  static func chargedQuery(to account: AccountNumber, except id: AttachmentID) -> SQL {
    """
    SELECT coalesce(sum(max(coalesce(bytes, 0), \(AttachmentQuota.chargeMin))), 0) FROM attachments
    WHERE account = \(account) AND id <> \(id.value)
    """
  }
}

extension Attachment {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      id: try Fields.valid(AttachmentID(row.integer(0))), account: try row.number(1), bytes: row.optionalInteger(2),
      expires: try row.time(3))
  }
}

extension AttachmentQuota {
  /// Whether an attachment of `bytes` fits where others count `held`.
  fileprivate func allows(_ bytes: Int64, beside held: Int64) -> Bool {
    held <= bytesMax - max(bytes, Self.chargeMin)
  }
}
