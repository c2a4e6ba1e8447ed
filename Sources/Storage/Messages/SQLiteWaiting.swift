// Reads of the mailboxes by live connections, and the word that they are all to be read.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func waiting(_ reads: [MailboxRead]) async throws(StoreError) -> [[QueuedEnvelope]] {
    guard !reads.isEmpty else { return [] }
    return try await read { db in try reads.map { try Self.waiting($0, in: db) } }
  }

  /// Held envelopes are passed over without their bodies being read.
  private static func waiting(_ read: MailboxRead, in db: Database) throws -> [QueuedEnvelope] {
    let held = Set(read.held)
    let oldest: SQL = """
      SELECT \(QueuedEnvelope.columns) FROM messages
      WHERE account = \(read.mailbox.account) AND device = \(read.mailbox.device)
      ORDER BY sequence LIMIT \(held.count + read.limit)
      """
    let rows = try Row.fetchCursor(db, SQLRequest(literal: oldest, cached: true))
    var found: [QueuedEnvelope] = []
    while found.count < read.limit, let row = try rows.next() {
      let fields = Fields(row: row)
      if try !held.contains(fields.integer(0)) { found.append(try QueuedEnvelope(row: fields, in: read.mailbox)) }
    }
    return found
  }

  package func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    guard !places.isEmpty else { return [] }
    return try await read { db in
      var queued: Set<MailboxPlace> = []
      for place in places {
        let found = try db.row(
          """
          SELECT 1 FROM messages
          WHERE sequence = \(place.sequence) AND account = \(place.mailbox.account)
            AND device = \(place.mailbox.device)
          """)
        if found != nil { queued.insert(place) }
      }
      return queued
    }
  }

  package func missedWakeUps() async throws(StoreError) -> Int64 { try await read { db in try db.revision(.wakeUps) } }
  package func noteMissedWakeUps() async throws(StoreError) { try await write { db in try db.raise(.wakeUps) } }
}
