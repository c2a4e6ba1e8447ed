package import RelayCore

extension PostgresStorage {
  package func recipient(_ number: RecipientNumber, of account: NotificationUser) async throws(StoreError)
    -> NotificationRecipient?
  {
    let result = try await read(
      .prepared(
        "notification_recipient",
        """
        SELECT provider, key, active, created, changed FROM notification_recipients
        WHERE number = $1::bigint AND account = $2::text
        """), Self.parameters(number, account))
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    return NotificationRecipient(
      number: number, key: try row.recipientKey(), isActive: try row.boolean(), created: try row.timestamp(),
      changed: try row.timestamp())
  }

  package func addRecipient(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    recipientsMax: Int64, now: Timestamp
  ) async throws(StoreError) -> RecipientAddition {
    let results = try await writeNotifications([
      Self.accountTurn(account),
      PostgresStep(
        .prepared(
          "add_recipient",
          """
          WITH made AS (
              INSERT INTO notification_recipients (number, account, provider, key, active, created, changed)
              SELECT $1::bigint, a.name, $3::text, $4::text, true, $6::bigint, $6::bigint
              FROM notification_accounts AS a
              WHERE a.name = $2::text AND a.permitted AND a.recipients < $7::bigint
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
          SELECT n.last, made.account, $6::bigint, 1, made.number, false, $5::bytea FROM made CROSS JOIN numbered AS n
          """),
        PostgresParameters {
          $0.add(bigint: number.value)
          $0.add(text: account.text)
          $0.add(text: key.provider.rawValue)
          $0.add(text: key.text)
          $0.add(opaque: subject.value)
          $0.add(bigint: now.millis)
          $0.add(bigint: recipientsMax)
        }),
      PostgresStep(
        .prepared(
          "may_register",
          "SELECT recipients < $2::bigint FROM notification_accounts WHERE name = $1::text AND permitted"),
        PostgresParameters {
          $0.add(text: account.text)
          $0.add(bigint: recipientsMax)
        }),
    ])
    guard results.count == 3 else { throw .corrupted(reason: "a registration said nothing") }
    if results[1].affectedRows == 1 { return .added }
    guard results[2].rowCount == 1 else { return .unknownAccount }
    var row = results[2].cursor(row: 0)
    return try row.boolean() ? .numberTaken : .accountFull
  }

  package func subscribe(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    now: Timestamp
  ) async throws(StoreError) -> Bool {
    let results = try await writeNotifications([
      Self.replaceStep(number, key, account, now),
      PostgresStep(
        .prepared(
          "subscribe_event",
          """
          WITH known AS (
              SELECT number, account FROM notification_recipients WHERE number = $1::bigint AND account = $2::text
            ),
            numbered AS (
              UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM known) RETURNING last
            )
          INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
          SELECT n.last, known.account, $4::bigint, 1, known.number, false, $3::bytea
          FROM known CROSS JOIN numbered AS n
          """), Self.parameters(number, account, subject, now)),
      Self.leadPushesStep(number),
    ])
    return results.first?.rowCount == 1
  }

  package func replaceKey(
    of number: RecipientNumber, by key: RecipientKey, of account: NotificationUser, now: Timestamp
  ) async throws(StoreError) -> KeyReplacement {
    let results = try await write([Self.replaceStep(number, key, account, now), Self.leadPushesStep(number)])
    guard let former = results.first, former.rowCount == 1 else { return .unknownRecipient }
    var row = former.cursor(row: 0)
    return try row.boolean() ? .replaced : .reactivated
  }

  package func unsubscribe(
    _ number: RecipientNumber, of account: NotificationUser, fromAll: Bool, subject: NotificationText, now: Timestamp
  ) async throws(StoreError) {
    // A lock by a step of its own: the next one sees what whoever had it has made of the recipient.
    let lock = PostgresStep(
      .prepared(
        "lock_recipient",
        """
        SELECT 1 FROM notification_recipients WHERE number = $1::bigint AND account = $2::text AND active
        FOR NO KEY UPDATE
        """), Self.parameters(number, account))
    let event = PostgresStep(
      .prepared(
        "unsubscribe",
        """
        WITH known AS (
            UPDATE notification_recipients
            SET active = NOT $5::boolean, changed = CASE WHEN $5::boolean THEN $4::bigint ELSE changed END
            WHERE number = $1::bigint AND account = $2::text AND active
            RETURNING number, account
          ),
          numbered AS (
            UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM known) RETURNING last
          )
        INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
        SELECT n.last, known.account, $4::bigint, $6::smallint, known.number, false, $3::bytea
        FROM known CROSS JOIN numbered AS n
        """),
      PostgresParameters {
        $0.add(bigint: number.value)
        $0.add(text: account.text)
        $0.add(opaque: subject.value)
        $0.add(bigint: now.millis)
        $0.add(boolean: fromAll)
        $0.add(smallint: (fromAll ? EventAction.unsubscribedAll : .unsubscribed).rawValue)
      })
    _ = try await writeNotifications(
      [lock, event] + (fromAll ? [Self.handOverPushesStep(number), Self.dropPushesStep(number)] : []))
  }

  /// Returns whether it was active. Pushes are the recipient's in whose stead nobody else with the same key gets them: where
  /// the key changes, somebody else has to.
  private static func replaceStep(
    _ number: RecipientNumber, _ key: RecipientKey, _ account: NotificationUser, _ now: Timestamp
  ) -> PostgresStep {
    PostgresStep(
      .prepared(
        "replace_key",
        """
        WITH former AS MATERIALIZED (
            SELECT number, account, provider, key, active FROM notification_recipients
            WHERE number = $1::bigint AND account = $2::text
            FOR NO KEY UPDATE
          ),
          copied AS (
            INSERT INTO notification_jobs (service, number, recipient, queued, due, claimed, expires)
            SELECT DISTINCT ON (j.id) j.service, j.number, o.number, j.queued, j.due, j.claimed, j.expires
            FROM former AS f JOIN notification_jobs AS j ON j.recipient = f.number
            JOIN notification_recipients AS o ON o.key = f.key AND o.active AND o.account = f.account
              AND o.number <> f.number AND (o.provider = 'apns') = (f.provider = 'apns')
            JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = j.number
            WHERE f.active AND (f.key <> $4::text OR (f.provider = 'apns') <> ($3::text = 'apns'))
              AND NOT EXISTS (
                SELECT FROM notification_jobs AS k JOIN notification_recipients AS q ON q.number = k.recipient
                WHERE k.number = j.number AND k.recipient <> f.number AND q.key = f.key
              )
            ORDER BY j.id, o.number
          )
        UPDATE notification_recipients AS r SET provider = $3::text, key = $4::text, active = true, changed = $5::bigint
        FROM former WHERE r.number = former.number RETURNING former.active
        """),
      PostgresParameters {
        $0.add(bigint: number.value)
        $0.add(text: account.text)
        $0.add(text: key.provider.rawValue)
        $0.add(text: key.text)
        $0.add(bigint: now.millis)
      })
  }

  /// Pushes that wait go where the recipient's key now leads.
  private static func leadPushesStep(_ number: RecipientNumber) -> PostgresStep {
    PostgresStep(
      .prepared(
        "lead_pushes",
        """
        UPDATE notification_jobs AS j SET service = s.service
        FROM (
          SELECT number, CASE provider WHEN 'apns' THEN 'apns' ELSE 'fcm' END AS service FROM notification_recipients
          WHERE number = $1::bigint
        ) AS s
        WHERE j.recipient = s.number AND j.service <> s.service
        """), PostgresParameters { $0.add(bigint: number.value) })
  }

  /// What waits for a recipient that is inactive goes to another one with its key, if it is for that one too.
  static func handOverPushesStep(_ number: RecipientNumber) -> PostgresStep {
    PostgresStep(
      .prepared(
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
          WHERE k.recipient = $1::bigint AND NOT r.active
          ORDER BY k.id FOR UPDATE OF k
        ) AS h
        WHERE j.id = h.id AND h.recipient IS NOT NULL
        """), PostgresParameters { $0.add(bigint: number.value) })
  }

  /// None goes to a recipient that is inactive.
  static func dropPushesStep(_ number: RecipientNumber) -> PostgresStep {
    PostgresStep(
      .prepared(
        "drop_pushes",
        """
        DELETE FROM notification_jobs WHERE id IN (
          SELECT j.id FROM notification_jobs AS j JOIN notification_recipients AS r ON r.number = j.recipient
          WHERE j.recipient = $1::bigint AND NOT r.active
          ORDER BY j.id FOR UPDATE OF j
        )
        """), PostgresParameters { $0.add(bigint: number.value) })
  }

  private static func parameters(_ number: RecipientNumber, _ account: NotificationUser) -> PostgresParameters {
    PostgresParameters {
      $0.add(bigint: number.value)
      $0.add(text: account.text)
    }
  }

  private static func parameters(
    _ number: RecipientNumber, _ account: NotificationUser, _ subject: NotificationText, _ now: Timestamp
  ) -> PostgresParameters {
    PostgresParameters {
      $0.add(bigint: number.value)
      $0.add(text: account.text)
      $0.add(opaque: subject.value)
      $0.add(bigint: now.millis)
    }
  }
}

extension PostgresRow {
  /// Two columns.
  mutating func recipientKey() throws(StoreError) -> RecipientKey {
    let provider = try required(NotificationProvider(rawValue: text()))
    return RecipientKey(provider: provider, text: try text())
  }
  mutating func recipientNumber() throws(StoreError) -> RecipientNumber { try required(RecipientNumber(bigint())) }
}
