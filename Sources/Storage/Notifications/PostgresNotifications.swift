package import RelayCore

extension PostgresStorage {
  package func send(
    _ notification: DeviceNotification, to addresses: [NotificationAddress], of account: NotificationUser,
    recipientsMax: Int, now: Timestamp, due: Timestamp
  ) async throws(StoreError) -> SendOutcome {
    let results = try await writeNotifications([
      // Neither credits nor quota are spent twice.
      Self.accountTurn(account),
      Self.sendStep(notification, to: addresses, of: account, recipientsMax: recipientsMax, now: now, due: due),
    ])
    guard let result = results.last, result.rowCount == 1 else { return .denied }
    var row = result.cursor(row: 0)
    let (word, recipients) = (try row.text(), try row.bigint())
    switch word {
    case "none": return .noRecipients
    case "many": return .tooManyRecipients
    case "quota": return .quotaExceeded
    case "credits": return .notEnoughCredits
    default: return .sent(number: try row.bigint(), recipients: Int(recipients))
    }
  }

  /// One statement: what is written depends on what the words resolve to. The number is taken when that is known, since
  /// whoever else needs one waits from then on.
  private static func sendStep(
    _ notification: DeviceNotification, to addresses: [NotificationAddress], of account: NotificationUser,
    recipientsMax: Int, now: Timestamp, due: Timestamp
  ) -> PostgresStep {
    let recipientsMax = PostgresParameter(Int64(recipientsMax))
    let account = PostgresParameter(account)
    let (sent, queued) = (PostgresParameter(now), PostgresParameter(due))
    let today = NotificationQuota.Period.day.mark(at: now)
    let month = NotificationQuota.Period.month.mark(at: now)
    return PostgresStep(
      "send",
      """
      \(reserving: 200 + notification.text.value.utf8.count + 32 * addresses.count)
      WITH account AS MATERIALIZED (
          SELECT name, credits, quota, mark, CASE WHEN mark = quota_mark THEN quota_used ELSE 0 END AS used
          FROM (
            SELECT a.name, a.credits, a.quota, a.quota_mark, a.quota_used,
              CASE WHEN p.mark = a.quota_mark - 1 THEN a.quota_mark ELSE p.mark END AS mark
            FROM notification_accounts AS a CROSS JOIN LATERAL (
              SELECT CASE a.quota_period WHEN 'day' THEN \(today) WHEN 'month' THEN \(month) ELSE 0 END AS mark
            ) AS p
            WHERE a.name = \(account) AND a.permitted
          ) AS a
        ),
        words AS MATERIALIZED (
          SELECT w.name_key, r.number
          FROM unnest(
              \(each: addresses.lazy.map(\.nameKey)), \(each: addresses.lazy.map { $0.number?.value ?? 0 }))
            AS w (name_key, number)
          LEFT JOIN notification_recipients AS r ON r.number = w.number AND r.account = \(account)
        ),
        names AS MATERIALIZED (SELECT coalesce(array_agg(name_key), '{}') AS keys FROM words WHERE number IS NULL),
        named AS MATERIALIZED (
          SELECT g.name_key FROM notification_groups AS g
          WHERE g.account = \(account) AND g.name_key = ANY ((SELECT keys FROM names)::text[])
          UNION
          SELECT g.name_key FROM notification_groups AS g
          WHERE g.account = \(account) AND g.short_key = ANY ((SELECT keys FROM names)::text[])
            AND NOT EXISTS (
              SELECT FROM notification_groups AS o WHERE o.account = \(account) AND o.name_key = g.short_key
            )
        ),
        resolved AS MATERIALIZED (
          SELECT r.number, CASE r.provider WHEN 'apns' THEN 'apns' ELSE 'fcm' END AS service, r.key
          FROM notification_recipients AS r
          WHERE r.account = \(account) AND r.active AND r.number IN (
            SELECT number FROM words WHERE number IS NOT NULL
            UNION
            SELECT m.recipient FROM notification_members AS m JOIN named AS n ON n.name_key = m.group_key
            WHERE m.account = \(account)
          )
          LIMIT \(recipientsMax) + 1
        ),
        verdict AS MATERIALIZED (
          SELECT c.recipients,
            CASE
              WHEN c.recipients = 0 THEN 'none'
              WHEN c.recipients > \(recipientsMax) THEN 'many'
              WHEN a.quota - a.used < c.recipients THEN 'quota'
              WHEN a.credits < c.recipients THEN 'credits'
              ELSE 'sent'
            END AS word
          FROM account AS a CROSS JOIN (SELECT count(*) AS recipients FROM resolved) AS c
        ),
        numbered AS (
          UPDATE notification_numbers SET last = last + 1 WHERE (SELECT word FROM verdict) = 'sent' RETURNING last
        ),
        stored AS (
          INSERT INTO notifications (number, account, sent, text, waits_while_idle, collapse_key, time_to_live,
            package_name)
          SELECT last, \(account), \(sent), \(opaque: notification.text.value), \(notification.waitsWhileIdle),
            \(opaque: notification.collapseKey), \(notification.timeToLive), \(notification.packageName) FROM numbered
        ),
        addressed AS (
          INSERT INTO notification_addressees (recipient, number)
          SELECT r.number, n.last FROM resolved AS r CROSS JOIN numbered AS n
        ),
        queued AS (
          INSERT INTO notification_jobs (service, number, recipient, queued, due, expires)
          SELECT d.service, n.last, d.number, \(queued), \(queued), \(due.adding(notification.life))
          FROM (
            SELECT DISTINCT ON (service, key) service, number FROM resolved ORDER BY service, key, number
          ) AS d CROSS JOIN numbered AS n
        ),
        charged AS (
          UPDATE notification_accounts AS a
          SET credits = a.credits - v.recipients, quota_mark = k.mark, quota_used = k.used + v.recipients
          FROM verdict AS v CROSS JOIN account AS k
          WHERE v.word = 'sent' AND a.name = k.name
        )
      SELECT v.word, v.recipients, n.last FROM verdict AS v LEFT JOIN numbered AS n ON true
      """)
  }

  package func notifications(
    for recipient: RecipientNumber, after: Int64, since: Timestamp?, limit: Int
  ) async throws(StoreError) -> [SentNotification] {
    let result = try await read(
      "notifications",
      """
      SELECT n.number, n.sent, n.text FROM notification_addressees AS a JOIN notifications AS n ON n.number = a.number
      WHERE a.recipient = \(recipient) AND a.number > \(after) AND n.sent >= \(since?.millis ?? Int64.min)
      ORDER BY a.number LIMIT \(Int64(limit))
      """)
    return try result.all(SentNotification.init(row:))
  }

  package func events(of account: NotificationUser, after: Int64, limit: Int) async throws(StoreError)
    -> [NotificationEvent]
  {
    let result = try await read(
      "notification_events",
      """
      SELECT number, created, action, recipient, ours, subject FROM notification_events
      WHERE account = \(account) AND number > \(after) ORDER BY number LIMIT \(Int64(limit))
      """)
    return try result.all(NotificationEvent.init(row:))
  }

  package func eventTurns(limit: Int, without busy: [NotificationUser], now: Timestamp) async throws(StoreError)
    -> [EventTurn]
  {
    let result = try await read(
      "event_turns",
      """
      SELECT name, event_url, event_method, events_pushed, event_attempts FROM notification_accounts AS a
      WHERE event_url IS NOT NULL AND event_due <= \(now) AND name <> ALL (\(each: busy)) AND EXISTS (
        SELECT FROM notification_events AS e WHERE e.account = a.name AND e.number > a.events_pushed
      )
      ORDER BY event_turn, name LIMIT \(Int64(limit))
      """)
    return try result.all(EventTurn.init(row:))
  }

  package func eventWasPushed(_ number: Int64, of account: NotificationUser, now: Timestamp) async throws(StoreError) {
    let number = PostgresParameter(number)
    _ = try await write(
      "event_was_pushed",
      """
      UPDATE notification_accounts SET events_pushed = \(number), event_attempts = 0, event_due = 0,
        event_turn = \(now)
      WHERE name = \(account) AND events_pushed < \(number)
      """)
  }

  package func putOffEvents(
    of account: NotificationUser, after pushed: Int64, attempts: Int, until time: Timestamp
  ) async throws(StoreError) {
    _ = try await write(
      "put_off_events",
      """
      UPDATE notification_accounts SET event_attempts = \(Int32(clamping: attempts)), event_due = \(time)
      WHERE name = \(account) AND events_pushed = \(pushed)
      """)
  }
}

extension SentNotification {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(number: try row.bigint(), sent: try row.timestamp(), text: NotificationText(try row.opaque()))
  }
}

extension NotificationEvent {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let (number, created) = (try row.bigint(), try row.timestamp())
    let action = try row.required(EventAction(rawValue: row.smallint()))
    self.init(
      number: number, created: created, action: action, recipient: try row.recipientNumber(),
      isOurs: try row.boolean(), subject: NotificationText(try row.opaque()))
  }
}

extension EventTurn {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let account = try row.notificationUser()
    let target = try EventTarget(optional: &row)
    self.init(
      account: account, target: try row.required(target), pushed: try row.bigint(), attempts: Int(try row.integer()))
  }
}
