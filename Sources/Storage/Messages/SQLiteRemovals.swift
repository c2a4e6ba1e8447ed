// Removals from the mailboxes by live connections.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func remove(_ places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    guard !places.isEmpty else { return [] }
    let today = arrivalDay
    return try await write { db in
      var removed: Set<MailboxPlace> = []
      for place in places where try Self.remove(place, today: today, in: db) { removed.insert(place) }
      return removed
    }
  }

  /// - Returns: false when nothing is there.
  private static func remove(_ place: MailboxPlace, today: Int64, in db: Database) throws -> Bool {
    let found = try db.row(
      """
      SELECT type, source, timestamp, fingerprint FROM messages
      WHERE sequence = \(place.sequence) AND account = \(place.mailbox.account) AND device = \(place.mailbox.device)
      """)
    guard let found else { return false }
    try remove(
      place, type: Fields.valid(MessageType(rawValue: Int16(truncatingIfNeeded: found.integer(0)))),
      source: found.number(1), sent: found.time(2), Fields.valid(Fingerprint(bytes: found.bytes(3))), today: today,
      in: db)
    return true
  }

  /// Removes what is at `place`, and remembers it: for a retry of the same envelope, and, unless it is a notice, who
  /// sent it for `hasReceived`.
  static func remove(
    _ place: MailboxPlace, type: MessageType, source: AccountNumber, sent: Timestamp, _ fingerprint: Fingerprint,
    today: Int64, in db: Database
  ) throws {
    try db.run("DELETE FROM messages WHERE sequence = \(place.sequence)")
    try db.run(
      """
      INSERT OR REPLACE INTO acknowledged (account, device, fingerprint, day, source, sent)
      VALUES (\(place.mailbox.account), \(place.mailbox.device), \(fingerprint.bytes), \(today),
        \(type.isNotice ? nil : source.key), \(type.isNotice ? nil : sent.millis))
      """)
  }
}
