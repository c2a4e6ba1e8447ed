package import RelayCore

extension PostgresStorage {
  package func recipient(_ number: RecipientNumber, of account: NotificationUser) async throws(StoreError)
    -> NotificationRecipient?
  {
    let result = try await read(
      "notification_recipient",
      """
      SELECT provider, key, active, created, changed FROM notification_recipients
      WHERE number = \(number) AND account = \(account)
      """)
    return try result.first { (row) throws(StoreError) in
      NotificationRecipient(
        number: number, key: try RecipientKey(row: &row), isActive: try row.boolean(), created: try row.timestamp(),
        changed: try row.timestamp())
    }
  }

  package func addRecipient(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    recipientsMax: Int64, now: Timestamp
  ) async throws(StoreError) -> RecipientAddition {
    let now = PostgresParameter(now)
    let results = try await writeNotifications([
      Self.accountTurn(account),
      PostgresStep(
        "add_recipient",
        """
        WITH made AS (
            INSERT INTO notification_recipients (number, account, provider, key, active, created, changed)
            SELECT \(number), a.name, \(key.provider.rawValue), \(key.text), true, \(now), \(now)
            FROM notification_accounts AS a
            WHERE a.name = \(account) AND a.permitted AND a.recipients < \(recipientsMax)
            ON CONFLICT (number) DO NOTHING
            RETURNING number, account
          ),
          counted AS (
            UPDATE notification_accounts AS a SET recipients = a.recipients + 1 FROM made WHERE a.name = made.account
          ),
          numbered AS (
            UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM made) RETURNING last
          )
        INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
        SELECT n.last, made.account, \(now), 1, made.number, false, \(opaque: subject.value)
        FROM made CROSS JOIN numbered AS n
        """),
      PostgresStep(
        "may_register",
        "SELECT recipients < \(recipientsMax) FROM notification_accounts WHERE name = \(account) AND permitted"),
    ])
    guard results.count == 3 else { throw .corrupted(reason: "a registration said nothing") }
    if results[1].affectedRows == 1 { return .added }
    guard let hasRoom = try results[2].first({ (row) throws(StoreError) in try row.boolean() }) else {
      return .unknownAccount
    }
    return hasRoom ? .numberTaken : .accountFull
  }

  package func subscribe(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    now: Timestamp
  ) async throws(StoreError) -> Bool {
    let results = try await writeNotifications([
      Self.accountTurn(account),
      Self.replaceStep(number, key, account, now),
      PostgresStep(
        "subscribe_event",
        """
        WITH known AS (
            SELECT number, account FROM notification_recipients WHERE number = \(number) AND account = \(account)
          ),
          numbered AS (
            UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM known) RETURNING last
          )
        INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
        SELECT n.last, known.account, \(now), 1, known.number, false, \(opaque: subject.value)
        FROM known CROSS JOIN numbered AS n
        """),
      Self.leadPushesStep(number),
    ])
    return results.dropFirst().first?.rowCount == 1
  }

  package func replaceKey(
    of number: RecipientNumber, by key: RecipientKey, of account: NotificationUser, now: Timestamp
  ) async throws(StoreError) -> KeyReplacement {
    // Behind a send that has resolved this recipient: its pushes are handed over, too.
    let results = try await writeNotifications([
      Self.accountTurn(account), Self.replaceStep(number, key, account, now), Self.leadPushesStep(number),
    ])
    guard let wasActive = try results.dropFirst().first?.first({ (row) throws(StoreError) in try row.boolean() }) else {
      return .unknownRecipient
    }
    return wasActive ? .replaced : .reactivated
  }

  package func unsubscribe(
    _ number: RecipientNumber, of account: NotificationUser, fromAll: Bool, subject: NotificationText, now: Timestamp
  ) async throws(StoreError) {
    // A lock by a step of its own: the next one sees what whoever had it has made of the recipient.
    let lock = PostgresStep(
      "lock_recipient",
      """
      SELECT 1 FROM notification_recipients WHERE number = \(number) AND account = \(account) AND active
      FOR NO KEY UPDATE
      """)
    let leaves = PostgresParameter(fromAll)
    let now = PostgresParameter(now)
    let event = PostgresStep(
      "unsubscribe",
      """
      WITH known AS (
          UPDATE notification_recipients
          SET active = NOT \(leaves), changed = CASE WHEN \(leaves) THEN \(now) ELSE changed END
          WHERE number = \(number) AND account = \(account) AND active
          RETURNING number, account
        ),
        numbered AS (
          UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM known) RETURNING last
        )
      INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
      SELECT n.last, known.account, \(now), \((fromAll ? EventAction.unsubscribedAll : .unsubscribed).rawValue),
        known.number, false, \(opaque: subject.value)
      FROM known CROSS JOIN numbered AS n
      """)
    _ = try await writeNotifications(
      [Self.accountTurn(account), lock, event]
        + (fromAll ? [Self.handOverPushesStep(number), Self.dropPushesStep(number)] : []))
  }

  /// Returns whether it was active. Pushes are the recipient's in whose stead nobody else with the same key gets them:
  /// where the key changes, somebody else has to.
  private static func replaceStep(
    _ number: RecipientNumber, _ key: RecipientKey, _ account: NotificationUser, _ now: Timestamp
  ) -> PostgresStep {
    let text = PostgresParameter(key.text)
    let provider = PostgresParameter(key.provider.rawValue)
    return PostgresStep(
      "replace_key",
      """
      WITH former AS MATERIALIZED (
          SELECT number, account, provider, key, active FROM notification_recipients
          WHERE number = \(number) AND account = \(account)
          FOR NO KEY UPDATE
        ),
        copied AS (
          INSERT INTO notification_jobs (service, number, recipient, queued, due, claimed, expires)
          SELECT DISTINCT ON (j.id) j.service, j.number, o.number, j.queued, j.due, j.claimed, j.expires
          FROM former AS f JOIN notification_jobs AS j ON j.recipient = f.number
          JOIN notification_recipients AS o ON o.key = f.key AND o.active AND o.account = f.account
            AND o.number <> f.number AND (o.provider = 'apns') = (f.provider = 'apns')
          JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = j.number
          WHERE f.active AND (f.key <> \(text) OR (f.provider = 'apns') <> (\(provider) = 'apns'))
            AND NOT EXISTS (
              SELECT FROM notification_jobs AS k JOIN notification_recipients AS q ON q.number = k.recipient
              WHERE k.number = j.number AND k.recipient <> f.number AND q.key = f.key
            )
          ORDER BY j.id, o.number
        )
      UPDATE notification_recipients AS r SET provider = \(provider), key = \(text), active = true, changed = \(now)
      FROM former WHERE r.number = former.number RETURNING former.active
      """)
  }

  /// Pushes that wait go where the recipient's key now leads.
  private static func leadPushesStep(_ number: RecipientNumber) -> PostgresStep {
    PostgresStep(
      "lead_pushes",
      """
      UPDATE notification_jobs AS j SET service = s.service
      FROM (
        SELECT k.id, CASE r.provider WHEN 'apns' THEN 'apns' ELSE 'fcm' END AS service
        FROM notification_jobs AS k JOIN notification_recipients AS r ON r.number = k.recipient
        WHERE k.recipient = \(number)
        ORDER BY k.id FOR UPDATE OF k
      ) AS s
      WHERE j.id = s.id AND j.service <> s.service
      """)
  }

  /// Pushes that wait for an inactive recipient go to another one with its key, if they are for that one too.
  static func handOverPushesStep(_ number: RecipientNumber) -> PostgresStep {
    PostgresStep(
      "hand_over_pushes",
      """
      UPDATE notification_jobs AS j SET recipient = h.recipient
      FROM (
        SELECT k.id, (
            SELECT o.number FROM notification_recipients AS o
            JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = k.number
            WHERE o.key = r.key AND o.active AND o.account = r.account AND o.number <> r.number
              AND (o.provider = 'apns') = (r.provider = 'apns')
            ORDER BY o.number LIMIT 1
          ) AS recipient
        FROM notification_jobs AS k JOIN notification_recipients AS r ON r.number = k.recipient
        WHERE k.recipient = \(number) AND NOT r.active
        ORDER BY k.id FOR UPDATE OF k
      ) AS h
      WHERE j.id = h.id AND h.recipient IS NOT NULL
      """)
  }

  /// None goes to a recipient that is inactive.
  static func dropPushesStep(_ number: RecipientNumber) -> PostgresStep {
    PostgresStep(
      "drop_pushes",
      """
      DELETE FROM notification_jobs WHERE id IN (
        SELECT j.id FROM notification_jobs AS j JOIN notification_recipients AS r ON r.number = j.recipient
        WHERE j.recipient = \(number) AND NOT r.active
        ORDER BY j.id FOR UPDATE OF j
      )
      """)
  }
}

extension RecipientNumber: PostgresValue {
  static var postgresType: PostgresType { .bigint }
  func append(to bytes: inout [UInt8]) -> Bool { value.append(to: &bytes) }
}

extension RecipientKey {
  /// Two columns.
  init(row: inout PostgresRow) throws(StoreError) {
    let provider = try row.required(NotificationProvider(rawValue: row.text()))
    self.init(provider: provider, text: try row.text())
  }
}

extension PostgresRow {
  mutating func recipientNumber() throws(StoreError) -> RecipientNumber { try required(RecipientNumber(bigint())) }
}
