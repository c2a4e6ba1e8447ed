import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func beginAudit(_ deed: AuditDeed) async throws(StoreError) -> Int64 {
    let now = clock.now()
    return try await write { db in
      try db.run(
        "INSERT INTO audit_log (time, actor, action, subject) VALUES (?, ?, ?, ?)",
        [now.millis, deed.actor.text.auditText, deed.action.auditText, deed.subject?.auditText])
      return db.lastInsertedRowID
    }
  }

  package func endAudit(_ id: Int64, _ outcome: AuditOutcome) async throws(StoreError) {
    let (word, reason) = outcome.columns
    try await write { db in
      try db.run("UPDATE audit_log SET outcome = ?, reason = ? WHERE id = ? AND outcome = 0", [word, reason, id])
    }
  }

  package func auditEntries(
    before id: Int64?, about subject: String?, limit: Int
  ) async throws(StoreError) -> [AuditEntry] {
    try await read { db in
      try db.rows(
        """
        SELECT id, time, actor, action, subject, outcome, reason FROM audit_log
        WHERE id < ? \(subject == nil ? "AND ? IS NULL" : "AND subject = ?") ORDER BY id DESC LIMIT ?
        """, [id ?? .max, subject, limit]
      ).reversed().map {
        try AuditEntry(
          id: $0.integer(0), time: $0.time(1), actor: $0.text(2), action: $0.text(3), subject: $0.optionalText(4),
          outcome: $0.integer(5), reason: $0.optionalText(6))
      }
    }
  }

  func forgetAudit(at past: Timestamp) async throws(StoreError) {
    let end = past.adding(.seconds(-86_400 * AuditLife.days)).millis
    try await write { db in try db.run("DELETE FROM audit_log WHERE time < ?", [end]) }
  }
}
