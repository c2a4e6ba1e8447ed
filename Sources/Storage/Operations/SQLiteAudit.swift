import GRDB
package import RelayCore

extension SQLiteStorage {
  package func beginAudit(_ deed: AuditDeed) async throws(StoreError) -> Int64 {
    let now = clock.now()
    return try await write { db in
      try db.run(
        """
        INSERT INTO audit_log (time, actor, action, subject)
        VALUES (\(now), \(deed.actor.text.auditText), \(deed.action.auditText), \(deed.subject?.auditText))
        """)
      return db.lastInsertedRowID
    }
  }

  package func endAudit(_ id: Int64, _ outcome: AuditOutcome) async throws(StoreError) {
    let (word, reason) = outcome.columns
    try await write { db in
      try db.run("UPDATE audit_log SET outcome = \(word), reason = \(reason) WHERE id = \(id) AND outcome = 0")
    }
  }

  package func auditEntries(
    before id: Int64?, about subject: String?, limit: Int
  ) async throws(StoreError) -> [AuditEntry] {
    let about: SQL = if let subject { "AND subject = \(subject)" } else { "" }
    return try await read { db in
      try db.rows(
        """
        SELECT id, time, actor, action, subject, outcome, reason FROM audit_log
        WHERE id < \(id ?? Int64.max) \(about) ORDER BY id DESC LIMIT \(limit)
        """
      ).reversed().map(AuditEntry.init(row:))
    }
  }

  func forgetAudit(at past: Timestamp) async throws(StoreError) {
    let end = past.adding(.seconds(-86_400 * AuditLife.days))
    try await write { db in try db.run("DELETE FROM audit_log WHERE time < \(end)") }
  }
}

extension AuditEntry {
  fileprivate init(row: Fields) throws(StoreError) {
    try self.init(
      id: row.integer(0), time: row.time(1), actor: row.text(2), action: row.text(3), subject: row.optionalText(4),
      outcome: row.integer(5), reason: row.optionalText(6))
  }
}
