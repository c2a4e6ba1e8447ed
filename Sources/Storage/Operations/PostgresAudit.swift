package import RelayCore

extension PostgresStorage {
  package func beginAudit(_ deed: AuditDeed) async throws(StoreError) -> Int64 {
    let step = PostgresStep(
      "begin_audit",
      """
      INSERT INTO audit_log (time, actor, action, subject)
      VALUES (floor(extract(epoch FROM now()) * 1000)::bigint, \(deed.actor.text.auditText),
        \(deed.action.auditText), \(deed.subject?.auditText))
      RETURNING id
      """)
    guard let id = try await write([step]).first?.first({ (row) throws(StoreError) in try row.bigint() }) else {
      throw .corrupted(reason: "an entry of the audit log has no id")
    }
    return id
  }

  package func endAudit(_ id: Int64, _ outcome: AuditOutcome) async throws(StoreError) {
    let (word, reason) = outcome.columns
    _ = try await write([
      PostgresStep(
        "end_audit",
        "UPDATE audit_log SET outcome = \(Int16(word)), reason = \(reason) WHERE id = \(id) AND outcome = 0")
    ])
  }

  package func auditEntries(
    before id: Int64?, about subject: String?, limit: Int
  ) async throws(StoreError) -> [AuditEntry] {
    let subject = PostgresParameter(subject)
    let result = try await readBulk(
      "audit_entries",
      """
      SELECT id, time, actor, action, subject, outcome::bigint, reason FROM audit_log
      WHERE id < \(id ?? Int64.max) AND (\(subject) IS NULL OR subject = \(subject))
      ORDER BY id DESC LIMIT \(Int64(limit))
      """)
    return try result.all(AuditEntry.init(row:)).reversed()
  }

  func forgetAudit(at past: Timestamp) async throws(StoreError) {
    _ = try await write([
      PostgresStep(
        "forget_audit", "DELETE FROM audit_log WHERE time < \(past.adding(.seconds(-86_400 * AuditLife.days)))")
    ])
  }
}

extension AuditEntry {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    try self.init(
      id: row.bigint(), time: row.timestamp(), actor: row.text(), action: row.text(), subject: row.optionalText(),
      outcome: row.bigint(), reason: row.optionalText())
  }
}
