package import RelayCore

// Locks are taken in one order: the account, its recipient, the row of message numbers, pushes. What needs the account to
// go on existing locks its row; so the removal, which takes the row first, sees all that was made under it.

extension PostgresStorage {
  package func addNotificationAccount(_ account: NotificationAccount) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "add_notification_account",
        """
        INSERT INTO notification_accounts (name, password_salt, password_hash, permitted, credits, quota, quota_period,
          event_url, event_method, events_pushed, created)
        SELECT $1::text, $2::bytea, $3::bytea, $4::boolean, $5::bigint, $6::bigint, $7::text, $8::text, $9::text, last,
          $10::bigint
        FROM notification_numbers
        ON CONFLICT (name) DO NOTHING
        """),
      PostgresParameters {
        $0.add(text: account.name.text)
        $0.add(password: account.password)
        $0.add(boolean: account.isPermitted)
        $0.add(bigint: account.credits)
        $0.add(quota: account.quota)
        $0.add(eventTarget: account.eventTarget)
        $0.add(bigint: account.created.millis)
      })
    return result.affectedRows == 1
  }

  package func notificationAccount(_ name: NotificationUser, now: Timestamp) async throws(StoreError)
    -> NotificationAccount?
  {
    let result = try await read(
      .prepared(
        "notification_account",
        """
        SELECT name, password_salt, password_hash, permitted, credits, quota, quota_period, quota_mark, quota_used,
          event_url, event_method, created
        FROM notification_accounts WHERE name = $1::text
        """), PostgresParameters { $0.add(text: name.text) })
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    return try row.notificationAccount(now: now)
  }

  package func notificationAccounts(now: Timestamp) async throws(StoreError) -> [NotificationAccount] {
    let result = try await read(
      .prepared(
        "notification_accounts",
        """
        SELECT name, password_salt, password_hash, permitted, credits, quota, quota_period, quota_mark, quota_used,
          event_url, event_method, created
        FROM notification_accounts ORDER BY name
        """))
    var accounts: [NotificationAccount] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      accounts.append(try row.notificationAccount(now: now))
    }
    return accounts
  }

  package func changeNotificationAccount(
    _ name: NotificationUser, _ change: NotificationAccountChange, now: Timestamp
  ) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "change_notification_account",
        """
        UPDATE notification_accounts SET
          password_salt = coalesce($2::bytea, password_salt), password_hash = coalesce($3::bytea, password_hash),
          permitted = coalesce($4::boolean, permitted),
          credits = CASE WHEN $5::boolean THEN $6::bigint ELSE credits END,
          quota = CASE WHEN $7::boolean THEN $8::bigint ELSE quota END,
          quota_period = CASE WHEN $7::boolean THEN $9::text ELSE quota_period END,
          quota_used = CASE WHEN $7::boolean THEN 0 ELSE quota_used END,
          events_pushed = CASE WHEN $10::boolean AND event_url IS NULL THEN (SELECT last FROM notification_numbers)
            ELSE events_pushed END,
          event_url = CASE WHEN $10::boolean THEN $11::text ELSE event_url END,
          event_method = CASE WHEN $10::boolean THEN $12::text ELSE event_method END,
          event_attempts = CASE WHEN $10::boolean THEN 0 ELSE event_attempts END,
          event_due = CASE WHEN $10::boolean THEN 0 ELSE event_due END
        WHERE name = $1::text
        """),
      PostgresParameters {
        $0.add(text: name.text)
        $0.add(password: change.password)
        $0.add(boolean: change.isPermitted)
        $0.add(boolean: change.credits != .keep)
        $0.add(bigint: change.credits.applied(to: nil))
        $0.add(boolean: change.quota != .keep)
        $0.add(quota: change.quota.applied(to: nil))
        $0.add(boolean: change.eventTarget != .keep)
        $0.add(eventTarget: change.eventTarget.applied(to: nil))
      })
    return result.affectedRows == 1
  }

  package func removeNotificationAccount(
    _ name: NotificationUser, progress: @Sendable (Int) -> Void
  ) async throws(StoreError) -> Bool {
    // No send begins from then on, and no registration.
    let shutOut = try await write(
      .prepared(
        "shut_out_notification_account", "UPDATE notification_accounts SET permitted = false WHERE name = $1::text"),
      PostgresParameters { $0.add(text: name.text) })
    guard shutOut.affectedRows == 1 else { return false }
    var gone = 0
    for page in RemovalPage.all {
      while true {
        let results = try await writeBulk(page.steps(of: name, rows: page.rows))
        let rows = results.last?.affectedRows ?? 0
        gone += Int(rows)
        progress(gone)
        guard rows == page.rows else { break }
      }
    }
    // With whatever was made meanwhile.
    let row = PostgresStep(
      .prepared("remove_notification_account", "DELETE FROM notification_accounts WHERE name = $1::text"),
      PostgresParameters { $0.add(text: name.text) })
    let last = RemovalPage.all.reversed().flatMap { $0.steps(of: name, rows: 1_000_000) }
    return try await writeBulk([row] + last).first?.affectedRows == 1
  }

  package func raiseMessageNumber(to number: Int64) async throws(StoreError) {
    _ = try await write(
      .prepared("raise_message_number", "UPDATE notification_numbers SET last = greatest(last, $1::bigint)"),
      PostgresParameters { $0.add(bigint: number) })
  }
}

extension PostgresParameters {
  /// Two values, both NULL for nil.
  fileprivate mutating func add(quota: NotificationQuota?) {
    add(bigint: quota?.max)
    add(text: quota?.period.rawValue)
  }
  /// Two values, both NULL for nil.
  fileprivate mutating func add(eventTarget: EventTarget?) {
    add(text: eventTarget?.url)
    add(text: eventTarget?.method.rawValue)
  }
}

extension PostgresRow {
  fileprivate mutating func notificationAccount(now: Timestamp) throws(StoreError) -> NotificationAccount {
    let name = try notificationUser()
    let password = PasswordHash(salt: try bytes(), hash: try bytes())
    let (isPermitted, credits) = (try boolean(), try optionalBigint())
    let quota = try optionalQuota()
    let (mark, used) = (try bigint(), try bigint())
    return NotificationAccount(
      name: name, password: password, isPermitted: isPermitted, credits: credits, quota: quota,
      used: quota?.period.mark(at: now) == mark ? used : 0, eventTarget: try optionalEventTarget(),
      created: try timestamp())
  }

  mutating func notificationUser() throws(StoreError) -> NotificationUser { try required(NotificationUser(text())) }

  private mutating func optionalQuota() throws(StoreError) -> NotificationQuota? {
    let (max, period) = (try optionalBigint(), optionalText())
    guard let max, let period else { return nil }
    return NotificationQuota(max: max, period: try required(NotificationQuota.Period(rawValue: period)))
  }

  mutating func optionalEventTarget() throws(StoreError) -> EventTarget? {
    let (url, method) = (optionalText(), optionalText())
    guard let url, let method else { return nil }
    return EventTarget(url: url, method: try required(EventTarget.Method(rawValue: method)))
  }
}

/// What an account has, a part at a time.
private struct RemovalPage {
  let rows: Int
  /// Statements of an account's name and a count of rows; the last one says how many there were.
  let statements: [PostgresStatement]

  func steps(of name: NotificationUser, rows: Int) -> [PostgresStep] {
    let parameters = PostgresParameters {
      $0.add(text: name.text)
      $0.add(bigint: Int64(rows))
    }
    return statements.map { PostgresStep($0, parameters) }
  }

  /// In the order in which they go.
  static let all = [
    // Pushes first, in the order in which everybody locks them; a notification goes with up to 10,000 recipients.
    RemovalPage(
      rows: 20,
      statements: [
        .prepared(
          "remove_account_pushes",
          """
          DELETE FROM notification_jobs WHERE id IN (
            SELECT id FROM notification_jobs WHERE number IN (
              SELECT number FROM notifications WHERE account = $1::text ORDER BY number LIMIT $2::bigint
            )
            ORDER BY id FOR UPDATE
          )
          """),
        .prepared(
          "remove_account_notifications",
          """
          DELETE FROM notifications WHERE number IN (
            SELECT number FROM notifications WHERE account = $1::text ORDER BY number LIMIT $2::bigint
          )
          """),
      ]),
    RemovalPage(
      rows: 1000,
      statements: [
        .prepared(
          "remove_account_events",
          """
          DELETE FROM notification_events WHERE account = $1::text AND number IN (
            SELECT number FROM notification_events WHERE account = $1::text ORDER BY number LIMIT $2::bigint
          )
          """)
      ]),
    RemovalPage(
      rows: 1000,
      statements: [
        .prepared(
          "remove_account_members",
          """
          DELETE FROM notification_members WHERE (account, group_key, recipient) IN (
            SELECT account, group_key, recipient FROM notification_members WHERE account = $1::text LIMIT $2::bigint
          )
          """)
      ]),
    RemovalPage(
      rows: 1000,
      statements: [
        .prepared(
          "release_recipients",
          """
          UPDATE notification_recipients SET account = NULL, key = '', active = false WHERE number IN (
            SELECT number FROM notification_recipients WHERE account = $1::text LIMIT $2::bigint
          )
          """)
      ]),
  ]
}
