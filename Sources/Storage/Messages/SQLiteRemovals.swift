// Removals of acknowledged messages, and the receipts that go with them.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func remove(_ removals: [MailboxRemoval]) async throws(StoreError) -> Set<MailboxPlace> {
    guard !removals.isEmpty else { return [] }
    let today = arrivalDay
    return try await write { db in
      var removed: Set<MailboxPlace> = []
      for removal in removals where try Self.remove(removal, today: today, in: db) { removed.insert(removal.place) }
      return removed
    }
  }

  /// Removes what is at the place, remembers it unless it is a receipt of this relay, and stores its receipt.
  /// - Returns: false when nothing is there.
  private static func remove(_ removal: MailboxRemoval, today: Int64, in db: Database) throws -> Bool {
    let (mailbox, sequence) = (removal.place.mailbox, removal.place.sequence)
    let found = try db.row(
      """
      SELECT type, source, sent, fingerprint, relay FROM messages
      WHERE sequence = \(sequence) AND account = \(mailbox.account) AND device = \(mailbox.device)
      """)
    guard let found else { return false }
    let type = try Fields.valid(MessageType(rawValue: Int16(truncatingIfNeeded: found.integer(0))))
    let (source, sent) = try (found.number(1), found.time(2))
    try db.run("DELETE FROM messages WHERE sequence = \(sequence)")
    if type != .receipt || found.optionalText(4) != nil {
      // For a retry of the same envelope, and, unless it is a notice, for `standing`.
      try db.run(
        """
        INSERT OR REPLACE INTO acknowledged (account, device, fingerprint, day, source, sent)
        VALUES (\(mailbox.account), \(mailbox.device), \(try found.bytes(3)), \(today),
          \(type.isNotice ? nil : source.key), \(type.isNotice ? nil : sent.millis))
        """)
    }
    guard let receipt = removal.receipt else { return true }
    for device in receipt.devices {
      try db.run(
        """
        INSERT INTO messages (account, device, day, type, source, source_device, sent, fingerprint)
        VALUES (\(source), \(device), \(today), \(MessageType.receipt.rawValue), \(mailbox.account),
          \(mailbox.device), \(sent), \(receipt.fingerprint.bytes))
        ON CONFLICT (account, device, fingerprint) DO NOTHING
        """)
    }
    return true
  }
}
