// What live connections ask of the mailboxes, and remove from them.

import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]] {
    guard !reads.isEmpty else { return [] }
    return try await read { db in try reads.map { try Self.waiting($0, in: db) } }
  }

  /// What is held is passed over without its bodies being read.
  private static func waiting(_ read: MailboxRead, in db: Database) throws -> [QueuedEnvelope] {
    let held = Set(read.held)
    let rows = try Row.fetchCursor(
      db.cachedStatement(
        sql: """
          SELECT sequence, type, source, source_device, relay, timestamp, message, content, fingerprint
          FROM messages WHERE account = ? AND device = ? ORDER BY sequence LIMIT ?
          """),
      arguments: [read.mailbox.account.key, read.mailbox.device.value, held.count + read.limit])
    var found: [QueuedEnvelope] = []
    while found.count < read.limit, let row = try rows.next() {
      let fields = Fields(row: row)
      if try !held.contains(fields.integer(0)) { found.append(try queued(fields, in: read.mailbox)) }
    }
    return found
  }

  package func remove(_ places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    guard !places.isEmpty else { return [] }
    let today = arrivalDay
    return try await write { db in
      var removed: Set<MailboxPlace> = []
      for place in places where try Self.remove(place, today: today, in: db) { removed.insert(place) }
      return removed
    }
  }

  package func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    guard !places.isEmpty else { return [] }
    return try await read { db in
      var queued: Set<MailboxPlace> = []
      for place in places {
        let found = try db.row(
          "SELECT 1 FROM messages WHERE sequence = ? AND account = ? AND device = ?",
          [place.sequence, place.mailbox.account.key, place.mailbox.device.value])
        if found != nil { queued.insert(place) }
      }
      return queued
    }
  }

  /// - Returns: false when nothing is there.
  private static func remove(_ place: MailboxPlace, today: Int64, in db: Database) throws -> Bool {
    let found = try db.row(
      "SELECT type, source, timestamp, fingerprint FROM messages WHERE sequence = ? AND account = ? AND device = ?",
      [place.sequence, place.mailbox.account.key, place.mailbox.device.value])
    guard let found else { return false }
    try remove(
      place, type: Fields.valid(MessageType(rawValue: Int16(truncatingIfNeeded: found.integer(0)))),
      source: found.number(1), sent: found.time(2), Fields.valid(Fingerprint(bytes: found.bytes(3))), today: today,
      in: db)
    return true
  }

  /// Removes what is at `place`, and remembers it: for a retry of the same envelope, and, unless it is a notice, who sent it
  /// for `hasReceived`.
  static func remove(
    _ place: MailboxPlace, type: MessageType, source: AccountNumber, sent: Timestamp, _ fingerprint: Fingerprint,
    today: Int64, in db: Database
  ) throws {
    try db.run("DELETE FROM messages WHERE sequence = ?", [place.sequence])
    try db.run(
      """
      INSERT OR REPLACE INTO acknowledged (account, device, fingerprint, day, source, sent) VALUES (?, ?, ?, ?, ?, ?)
      """,
      [
        place.mailbox.account.key, place.mailbox.device.value, Data(fingerprint.bytes), today,
        type.isNotice ? nil : source.key, type.isNotice ? nil : sent.millis,
      ])
  }
}
