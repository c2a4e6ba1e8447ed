import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func addAttachment(
    _ attachment: Attachment, quota: AttachmentQuota
  ) async throws(StoreError) -> Bool {
    let (id, account) = (attachment.id, attachment.account)
    return try await write { db in
      // Added before: whoever had no answer may ask again.
      if let known = try db.row("SELECT account FROM attachments WHERE id = ?", [id.value]) {
        return try known.number(0) == account
      }
      let held = try Self.charged(to: account, except: id, in: db)
      guard quota.allows(attachment.bytes ?? 0, beside: held) else { return false }
      try db.run(
        "INSERT INTO attachments (id, account, bytes, expires) VALUES (?, ?, ?, ?)",
        [id.value, account.key, attachment.bytes, attachment.expires.millis])
      return true
    }
  }

  package func attachment(_ id: AttachmentID) async throws(StoreError) -> Attachment? {
    try await read { db in
      try db.row("SELECT id, account, bytes, expires FROM attachments WHERE id = ?", [id.value]).map(Self.attachment)
    }
  }

  package func finishAttachment(
    _ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota
  ) async throws(StoreError) -> AttachmentOutcome {
    try await write { db in
      let known = try db.row("SELECT account, bytes FROM attachments WHERE id = ?", [id.value])
      guard let known else { return .unknown }
      guard known.optionalInteger(1) == nil else { return .alreadyFinished }
      let held = try Self.charged(to: known.number(0), except: id, in: db)
      guard quota.allows(bytes, beside: held) else { return .quotaExceeded }
      try db.run("UPDATE attachments SET bytes = ?, expires = ? WHERE id = ?", [bytes, expires.millis, id.value])
      return .finished
    }
  }

  package func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [Attachment] {
    try await read { db in
      try db.rows(
        "SELECT id, account, bytes, expires FROM attachments WHERE expires < ? ORDER BY expires, id LIMIT ?",
        [now.millis, limit]
      ).map(Self.attachment)
    }
  }

  package func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError) {
    guard !ids.isEmpty else { return }
    try await write { db in
      for id in ids { try db.run("DELETE FROM attachments WHERE id = ?", [id.value]) }
    }
  }

  /// What the account's other attachments count.
  private static func charged(to account: AccountNumber, except id: AttachmentID, in db: Database) throws -> Int64 {
    let sum = try db.row(chargedQuery, [AttachmentQuota.chargeMin, account.key, id.value])
    return try Fields.valid(sum).integer(0)
  }

  static let chargedQuery =
    "SELECT coalesce(sum(max(coalesce(bytes, 0), ?)), 0) FROM attachments WHERE account = ? AND id <> ?"

  private static func attachment(_ row: Fields) throws -> Attachment {
    try Attachment(
      id: Fields.valid(AttachmentID(row.integer(0))), account: row.number(1), bytes: row.optionalInteger(2),
      expires: row.time(3))
  }
}

extension AttachmentQuota {
  /// Whether an attachment of `bytes` fits where others count `held`.
  fileprivate func allows(_ bytes: Int64, beside held: Int64) -> Bool {
    held <= bytesMax - max(bytes, Self.chargeMin)
  }
}
