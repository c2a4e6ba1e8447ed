package import RelayCore

// An account's total for attachments stands in `attachment_charges`, and changes in the transaction that changes an
// attachment. Its row is locked first, by a step of its own. So such changes take turns, whatever process they come
// from, and the steps behind it see each other's work.

extension PostgresStorage {
  package func addAttachment(_ attachment: Attachment, quota: AttachmentQuota) async throws(StoreError) -> Bool {
    let (id, account) = (PostgresParameter(attachment.id.value), PostgresParameter(attachment.account))
    let charge = PostgresParameter(max(attachment.bytes ?? 0, AttachmentQuota.chargeMin))
    let results = try await write([
      PostgresStep(
        "add_attachment_lock",
        """
        INSERT INTO attachment_charges AS known (account, total) VALUES (\(account), 0)
        ON CONFLICT (account) DO UPDATE SET total = known.total
        """),
      PostgresStep(
        "add_attachment",
        """
        WITH added AS (
          INSERT INTO attachments (id, account, bytes, charge, expires)
          SELECT \(id), account, \(attachment.bytes), \(charge), \(attachment.expires) FROM attachment_charges
          WHERE account = \(account) AND total + \(charge) <= \(quota.bytesMax)
          ON CONFLICT (id) DO NOTHING
          RETURNING 1
        )
        UPDATE attachment_charges SET total = total + \(charge)
        WHERE account = \(account) AND EXISTS (SELECT FROM added)
        """),
      // Also when it was added before: a client that had no answer may ask again.
      PostgresStep("add_attachment_outcome", "SELECT 1 FROM attachments WHERE id = \(id) AND account = \(account)"),
    ])
    return results.last?.rowCount == 1
  }

  package func attachment(_ id: AttachmentID) async throws(StoreError) -> Attachment? {
    let result = try await read(
      "attachment", "SELECT id, account, bytes, expires FROM attachments WHERE id = \(id.value)")
    return try result.first(Attachment.init(row:))
  }

  package func finishAttachment(_ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota)
    async throws(StoreError) -> AttachmentOutcome
  {
    let id = PostgresParameter(id.value)
    let charge = PostgresParameter(max(bytes, AttachmentQuota.chargeMin))
    let results = try await write([
      PostgresStep(
        "finish_attachment_lock",
        """
        SELECT 1 FROM attachment_charges WHERE account = (SELECT account FROM attachments WHERE id = \(id))
        FOR UPDATE
        """),
      PostgresStep(
        "finish_attachment",
        """
        WITH finished AS (
          UPDATE attachments AS a SET bytes = \(bytes), charge = \(charge), expires = \(expires)
          FROM attachments AS former JOIN attachment_charges AS c ON c.account = former.account
          WHERE a.id = \(id) AND a.bytes IS NULL AND former.id = \(id)
            AND c.total - former.charge + \(charge) <= \(quota.bytesMax)
          RETURNING a.account, a.charge - former.charge AS growth
        )
        UPDATE attachment_charges AS c SET total = c.total + f.growth FROM finished AS f WHERE c.account = f.account
        """),
      PostgresStep("finish_attachment_outcome", "SELECT bytes IS NOT NULL FROM attachments WHERE id = \(id)"),
    ])
    if results[1].affectedRows == 1 { return .finished }
    guard let isFinished = try results[2].first({ (row) throws(StoreError) in try row.boolean() }) else {
      return .unknown
    }
    return isFinished ? .alreadyFinished : .quotaExceeded
  }

  package func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [Attachment] {
    let result = try await readBulk(
      "expired_attachments",
      """
      SELECT id, account, bytes, expires FROM attachments WHERE expires < \(now)
      ORDER BY expires LIMIT \(Int64(limit))
      """)
    return try result.all(Attachment.init(row:))
  }

  package func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError) {
    guard !ids.isEmpty else { return }
    let ids = PostgresParameter(each: ids.lazy.map(\.value))
    _ = try await writeBulk([
      // In one order everywhere: two that remove at once never wait for each other in a circle.
      PostgresStep(
        "remove_attachments_lock",
        """
        SELECT 1 FROM attachment_charges
        WHERE account IN (SELECT account FROM attachments WHERE id = ANY (\(ids)))
        ORDER BY account FOR UPDATE
        """),
      PostgresStep(
        "remove_attachments",
        """
        WITH removed AS (
            DELETE FROM attachments WHERE id = ANY (\(ids)) RETURNING account, charge
          ),
          freed AS (SELECT account, sum(charge)::bigint AS charge FROM removed GROUP BY account)
        UPDATE attachment_charges AS c SET total = c.total - f.charge FROM freed AS f WHERE c.account = f.account
        """),
    ])
  }
}

extension Attachment {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      id: try row.required(AttachmentID(row.bigint())), account: try row.account(), bytes: try row.optionalBigint(),
      expires: try row.timestamp())
  }
}
