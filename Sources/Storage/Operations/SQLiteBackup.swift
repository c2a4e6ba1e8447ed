import Dispatch
import GRDB
package import RelayCore

/// The rows of a backup, counted, so that it can be compared with its source.
package struct StoreCounts: Codable, Sendable, Equatable {
  package let accounts: Int
  package let devices: Int
  /// Messages that wait in mailboxes, and for peers.
  package let messages: Int
  package let held: Int
  package let oneTimePreKeys: Int
  package let attachments: Int
}

extension SQLiteStorage {
  /// Copies one consistent state of the database into a new file at `path`, while others read and write (SQLite's
  /// online backup).
  /// - Throws: `.unavailable` where the disk is full or the file cannot be made.
  package func backUp(to path: String) async throws(StoreError) {
    try SQLiteFile.prepare(path)
    let pool = pool
    do {
      try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
        DispatchQueue.global().async {
          done.resume(
            with: Result {
              let copy = try DatabaseQueue(path: path)
              // In one step: what is written meanwhile would make it begin anew.
              try pool.backup(to: copy)
              try copy.close()
            })
        }
      }
    } catch {
      throw StoreError(embedded: error)
    }
  }

  /// Looks at every page, index and reference of the file. - Returns: what is wrong; empty for a whole one.
  package func integrityFaults() async throws(StoreError) -> [String] {
    try await read { db in
      let pages = try String.fetchAll(db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
      let references = try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").prefix(20)
      return pages + references.map { "a row of \($0["table"] as String? ?? "?") refers to nothing" }
    }
  }

  package func counts() async throws(StoreError) -> StoreCounts {
    try await read { db in
      func count(_ table: String) throws -> Int { try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? 0 }
      return StoreCounts(
        accounts: try count("accounts"), devices: try count("devices"), messages: try count("messages"),
        held: try count("outbox"), oneTimePreKeys: try count("one_time_prekeys"), attachments: try count("attachments"))
    }
  }

  /// Attachments that were uploaded.
  package func uploadedAttachments() async throws(StoreError) -> [AttachmentID] {
    try await read { db in
      try Int64.fetchAll(db, sql: "SELECT id FROM attachments WHERE bytes IS NOT NULL").compactMap { AttachmentID($0) }
    }
  }

  /// Moves all of the log into the file itself: once the store is closed, the file alone is the whole database.
  package func settle() async throws(StoreError) {
    do {
      try await pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
    } catch {
      throw StoreError(embedded: error)
    }
  }
}
