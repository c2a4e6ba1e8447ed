package import RelayCore

// What the attachments of an account take together stands in `attachment_charges`, and changes in the transaction that
// changes one of them. Its row is locked first, by a step of its own: such changes take turns, whatever process they
// come from, and the steps behind it see each other's work.

extension PostgresStorage {
  package func addAttachment(_ attachment: Attachment, quota: AttachmentQuota) async throws(StoreError) -> Bool {
    let charge = max(attachment.bytes ?? 0, AttachmentQuota.chargeMin)
    let results = try await write([
      PostgresStep(
        .prepared(
          "add_attachment_lock",
          """
          INSERT INTO attachment_charges AS known (account, total) VALUES ($1::bigint, 0)
          ON CONFLICT (account) DO UPDATE SET total = known.total
          """), PostgresParameters { $0.add(account: attachment.account) }),
      PostgresStep(
        .prepared(
          "add_attachment",
          """
          WITH added AS (
            INSERT INTO attachments (id, account, bytes, charge, expires)
            SELECT $1::bigint, account, $3::bigint, $4::bigint, $5::bigint FROM attachment_charges
            WHERE account = $2::bigint AND total + $4::bigint <= $6::bigint
            ON CONFLICT (id) DO NOTHING
            RETURNING 1
          )
          UPDATE attachment_charges SET total = total + $4::bigint
          WHERE account = $2::bigint AND EXISTS (SELECT FROM added)
          """),
        PostgresParameters {
          $0.add(bigint: attachment.id.value)
          $0.add(account: attachment.account)
          $0.add(bigint: attachment.bytes)
          $0.add(bigint: charge)
          $0.add(bigint: attachment.expires.millis)
          $0.add(bigint: quota.bytesMax)
        }),
      // Also when it was added before: whoever had no answer may ask again.
      PostgresStep(
        .prepared(
          "add_attachment_outcome", "SELECT 1 FROM attachments WHERE id = $1::bigint AND account = $2::bigint"),
        PostgresParameters {
          $0.add(bigint: attachment.id.value)
          $0.add(account: attachment.account)
        }),
    ])
    return results.last?.rowCount == 1
  }

  package func attachment(_ id: AttachmentID) async throws(StoreError) -> Attachment? {
    let result = try await read(
      .prepared("attachment", "SELECT id, account, bytes, expires FROM attachments WHERE id = $1::bigint"),
      PostgresParameters { $0.add(bigint: id.value) })
    return try Self.attachments(result).first
  }

  package func finishAttachment(_ id: AttachmentID, bytes: Int64, expires: Timestamp, quota: AttachmentQuota)
    async throws(StoreError) -> AttachmentOutcome
  {
    let own = PostgresParameters { $0.add(bigint: id.value) }
    let results = try await write([
      PostgresStep(
        .prepared(
          "finish_attachment_lock",
          """
          SELECT 1 FROM attachment_charges WHERE account = (SELECT account FROM attachments WHERE id = $1::bigint)
          FOR UPDATE
          """), own),
      PostgresStep(
        .prepared(
          "finish_attachment",
          """
          WITH finished AS (
            UPDATE attachments AS a SET bytes = $2::bigint, charge = $3::bigint, expires = $4::bigint
            FROM attachments AS former JOIN attachment_charges AS c ON c.account = former.account
            WHERE a.id = $1::bigint AND a.bytes IS NULL AND former.id = $1::bigint
              AND c.total - former.charge + $3::bigint <= $5::bigint
            RETURNING a.account, a.charge - former.charge AS growth
          )
          UPDATE attachment_charges AS c SET total = c.total + f.growth FROM finished AS f WHERE c.account = f.account
          """),
        PostgresParameters {
          $0.add(bigint: id.value)
          $0.add(bigint: bytes)
          $0.add(bigint: max(bytes, AttachmentQuota.chargeMin))
          $0.add(bigint: expires.millis)
          $0.add(bigint: quota.bytesMax)
        }),
      PostgresStep(
        .prepared("finish_attachment_outcome", "SELECT bytes IS NOT NULL FROM attachments WHERE id = $1::bigint"), own),
    ])
    if results.dropFirst().first?.affectedRows == 1 { return .finished }
    guard let found = results.last, found.rowCount == 1 else { return .unknown }
    var row = found.cursor(row: 0)
    return try row.boolean() ? .alreadyFinished : .quotaExceeded
  }

  package func expiredAttachments(before now: Timestamp, limit: Int) async throws(StoreError) -> [Attachment] {
    let result = try await readBulk(
      .prepared(
        "expired_attachments",
        """
        SELECT id, account, bytes, expires FROM attachments WHERE expires < $1::bigint
        ORDER BY expires LIMIT $2::bigint
        """),
      PostgresParameters {
        $0.add(bigint: now.millis)
        $0.add(bigint: Int64(limit))
      })
    return try Self.attachments(result)
  }

  package func removeAttachments(_ ids: [AttachmentID]) async throws(StoreError) {
    guard !ids.isEmpty else { return }
    let parameters = PostgresParameters { $0.add(bigints: ids.map(\.value)) }
    _ = try await writeBulk([
      // In one order everywhere: two that remove at once never wait for each other in a circle.
      PostgresStep(
        .prepared(
          "remove_attachments_lock",
          """
          SELECT 1 FROM attachment_charges
          WHERE account IN (SELECT account FROM attachments WHERE id = ANY ($1::bigint[]))
          ORDER BY account FOR UPDATE
          """), parameters),
      PostgresStep(
        .prepared(
          "remove_attachments",
          """
          WITH removed AS (
              DELETE FROM attachments WHERE id = ANY ($1::bigint[]) RETURNING account, charge
            ),
            freed AS (SELECT account, sum(charge)::bigint AS charge FROM removed GROUP BY account)
          UPDATE attachment_charges AS c SET total = c.total - f.charge FROM freed AS f WHERE c.account = f.account
          """), parameters),
    ])
  }

  private static func attachments(_ result: PostgresResult) throws(StoreError) -> [Attachment] {
    var attachments: [Attachment] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      attachments.append(
        Attachment(
          id: try row.required(AttachmentID(row.bigint())), account: try row.account(), bytes: try row.optionalBigint(),
          expires: try row.timestamp()))
    }
    return attachments
  }
}
