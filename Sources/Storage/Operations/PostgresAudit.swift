package import RelayCore

extension PostgresStorage {
  package func beginAudit(_ deed: AuditDeed) async throws(StoreError) -> Int64 {
    let step = PostgresStep(
      .prepared(
        "begin_audit",
        """
        INSERT INTO audit_log (time, actor, action, subject)
        VALUES (floor(extract(epoch FROM now()) * 1000)::bigint, $1::text, $2::text, $3::text) RETURNING id
        """),
      PostgresParameters {
        $0.add(text: deed.actor.text.auditText)
        $0.add(text: deed.action.auditText)
        $0.add(text: deed.subject?.auditText)
      })
    guard let result = try await write([step]).first, result.rowCount == 1 else {
      throw .corrupted(reason: "an entry of the audit log has no id")
    }
    var row = result.cursor(row: 0)
    return try row.bigint()
  }

  package func endAudit(_ id: Int64, _ outcome: AuditOutcome) async throws(StoreError) {
    let (word, reason) = outcome.columns
    _ = try await write([
      PostgresStep(
        .prepared(
          "end_audit",
          "UPDATE audit_log SET outcome = $2::smallint, reason = $3::text WHERE id = $1::bigint AND outcome = 0"),
        PostgresParameters {
          $0.add(bigint: id)
          $0.add(smallint: Int16(word))
          $0.add(text: reason)
        })
    ])
  }

  package func auditEntries(
    before id: Int64?, about subject: String?, limit: Int
  ) async throws(StoreError) -> [AuditEntry] {
    let result = try await readBulk(
      .prepared(
        "audit_entries",
        """
        SELECT id, time, actor, action, subject, outcome::bigint, reason FROM audit_log
        WHERE id < $1::bigint AND ($2::text IS NULL OR subject = $2::text) ORDER BY id DESC LIMIT $3::bigint
        """),
      PostgresParameters {
        $0.add(bigint: id ?? .max)
        $0.add(text: subject)
        $0.add(bigint: Int64(limit))
      })
    var entries: [AuditEntry] = []
    for index in result.rows.reversed() {
      var row = result.cursor(row: index)
      entries.append(
        try AuditEntry(
          id: row.bigint(), time: row.timestamp(), actor: row.text(), action: row.text(), subject: row.optionalText(),
          outcome: row.bigint(), reason: row.optionalText()))
    }
    return entries
  }

  func forgetAudit(at past: Timestamp) async throws(StoreError) {
    _ = try await write([
      PostgresStep(
        .prepared("forget_audit", "DELETE FROM audit_log WHERE time < $1::bigint"),
        PostgresParameters { $0.add(bigint: past.adding(.seconds(-86_400 * AuditLife.days)).millis) })
    ])
  }
}
