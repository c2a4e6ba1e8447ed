package import RelayCore

// Locks are taken in one order: the account, its recipient, the row of message numbers, pushes. A change that needs
// the account to go on existing locks its row. So the removal, which takes the row first, sees all that was made
// under it.

extension PostgresStorage {
  package func addNotificationAccount(_ account: NotificationAccount) async throws(StoreError) -> Bool {
    let result = try await write(
      "add_notification_account",
      """
      INSERT INTO notification_accounts (name, password_salt, password_hash, permitted, credits, quota, quota_period,
        event_url, event_method, events_pushed, created)
      SELECT \(account.name), \(account.password.salt), \(account.password.hash), \(account.isPermitted),
        \(account.credits), \(account.quota?.max), \(account.quota?.period.rawValue), \(account.eventTarget?.url),
          \(account.eventTarget?.method.rawValue), last,
        \(account.created)
      FROM notification_numbers
      ON CONFLICT (name) DO NOTHING
      """)
    return result.affectedRows == 1
  }

  package func notificationAccount(_ name: NotificationUser, now: Timestamp) async throws(StoreError)
    -> NotificationAccount?
  {
    let result = try await read(
      "notification_account",
      """
      SELECT name, password_salt, password_hash, permitted, credits, quota, quota_period, quota_mark, quota_used,
        event_url, event_method, created
      FROM notification_accounts WHERE name = \(name)
      """)
    return try result.first { (row) throws(StoreError) in try NotificationAccount(row: &row, now: now) }
  }

  package func notificationAccounts(now: Timestamp) async throws(StoreError) -> [NotificationAccount] {
    let result = try await read(
      "notification_accounts",
      """
      SELECT name, password_salt, password_hash, permitted, credits, quota, quota_period, quota_mark, quota_used,
        event_url, event_method, created
      FROM notification_accounts ORDER BY name
      """)
    return try result.all { (row) throws(StoreError) in try NotificationAccount(row: &row, now: now) }
  }

  package func changeNotificationAccount(
    _ name: NotificationUser, _ change: NotificationAccountChange, now: Timestamp
  ) async throws(StoreError) -> Bool {
    let (quota, target) = (change.quota.applied(to: nil), change.eventTarget.applied(to: nil))
    let setsQuota = PostgresParameter(change.quota != .keep)
    let setsTarget = PostgresParameter(change.eventTarget != .keep)
    let result = try await write(
      "change_notification_account",
      """
      UPDATE notification_accounts SET
        password_salt = coalesce(\(change.password?.salt), password_salt),
        password_hash = coalesce(\(change.password?.hash), password_hash),
        permitted = coalesce(\(change.isPermitted), permitted),
        credits = CASE WHEN \(change.credits != .keep) THEN \(change.credits.applied(to: nil)) ELSE credits END,
        quota = CASE WHEN \(setsQuota) THEN \(quota?.max) ELSE quota END,
        quota_period = CASE WHEN \(setsQuota) THEN \(quota?.period.rawValue) ELSE quota_period END,
        quota_used = CASE WHEN \(setsQuota) THEN 0 ELSE quota_used END,
        events_pushed = CASE WHEN \(setsTarget) AND event_url IS NULL THEN (SELECT last FROM notification_numbers)
          ELSE events_pushed END,
        event_url = CASE WHEN \(setsTarget) THEN \(target?.url) ELSE event_url END,
        event_method = CASE WHEN \(setsTarget) THEN \(target?.method.rawValue) ELSE event_method END,
        event_attempts = CASE WHEN \(setsTarget) THEN 0 ELSE event_attempts END,
        event_due = CASE WHEN \(setsTarget) THEN 0 ELSE event_due END
      WHERE name = \(name)
      """)
    return result.affectedRows == 1
  }

  package func removeNotificationAccount(
    _ name: NotificationUser, progress: @Sendable (Int) -> Void
  ) async throws(StoreError) -> Bool {
    // No send begins from then on, and no registration.
    let shutOut = try await write(
      "shut_out_notification_account", "UPDATE notification_accounts SET permitted = false WHERE name = \(name)")
    guard shutOut.affectedRows == 1 else { return false }
    var gone = 0
    for page in RemovalPage.all {
      while true {
        let results = try await writeBulk(page.steps(name, page.rows))
        let rows = results.last?.affectedRows ?? 0
        gone += rows
        progress(gone)
        guard rows == Int(page.rows) else { break }
      }
    }
    // With whatever was made meanwhile.
    let row = PostgresStep(
      "remove_notification_account", "DELETE FROM notification_accounts WHERE name = \(name)")
    let last = RemovalPage.all.reversed().flatMap { $0.steps(name, 1_000_000) }
    return try await writeBulk([row] + last).first?.affectedRows == 1
  }

  package func raiseMessageNumber(to number: Int64) async throws(StoreError) {
    _ = try await write(
      "raise_message_number", "UPDATE notification_numbers SET last = greatest(last, \(number))")
  }
}

extension NotificationUser: PostgresValue {
  static var postgresType: PostgresType { .text }
  func append(to bytes: inout [UInt8]) -> Bool { text.append(to: &bytes) }
}

extension NotificationAccount {
  fileprivate init(row: inout PostgresRow, now: Timestamp) throws(StoreError) {
    let name = try row.notificationUser()
    let password = PasswordHash(salt: try row.bytes(), hash: try row.bytes())
    let (isPermitted, credits) = (try row.boolean(), try row.optionalBigint())
    let quota = try NotificationQuota(optional: &row)
    let (mark, used) = (try row.bigint(), try row.bigint())
    self.init(
      name: name, password: password, isPermitted: isPermitted, credits: credits, quota: quota,
      used: quota?.period.mark(at: now, after: mark) == mark ? used : 0, eventTarget: try EventTarget(optional: &row),
      created: try row.timestamp())
  }
}

extension NotificationQuota {
  /// Two columns; nil when one is NULL.
  fileprivate init?(optional row: inout PostgresRow) throws(StoreError) {
    let (max, period) = (try row.optionalBigint(), row.optionalText())
    guard let max, let period else { return nil }
    self.init(max: max, period: try row.required(Period(rawValue: period)))
  }
}

extension EventTarget {
  /// Two columns; nil when one is NULL.
  init?(optional row: inout PostgresRow) throws(StoreError) {
    let (url, method) = (row.optionalText(), row.optionalText())
    guard let url, let method else { return nil }
    self.init(url: url, method: try row.required(Method(rawValue: method)))
  }
}

extension PostgresRow {
  mutating func notificationUser() throws(StoreError) -> NotificationUser { try required(NotificationUser(text())) }
}

/// A part of the rows of an account, for its removal.
private struct RemovalPage {
  let rows: Int64
  /// - Returns: statements that take at most so many rows; the last one says how many there were.
  let steps: @Sendable (_ account: NotificationUser, _ rows: Int64) -> [PostgresStep]

  init(rows: Int64, steps: @escaping @Sendable (NotificationUser, Int64) -> [PostgresStep]) {
    self.rows = rows
    self.steps = steps
  }

  /// In the order in which they go.
  static let all = [
    // Pushes first, in the order in which everybody locks them; a notification goes with up to 10,000 recipients.
    RemovalPage(rows: 20) { account, rows in
      let (account, rows) = (PostgresParameter(account), PostgresParameter(rows))
      return [
        PostgresStep(
          "remove_account_pushes",
          """
          DELETE FROM notification_jobs WHERE id IN (
            SELECT id FROM notification_jobs WHERE number IN (
              SELECT number FROM notifications WHERE account = \(account) ORDER BY number LIMIT \(rows)
            )
            ORDER BY id FOR UPDATE
          )
          """),
        PostgresStep(
          "remove_account_notifications",
          """
          DELETE FROM notifications WHERE number IN (
            SELECT number FROM notifications WHERE account = \(account) ORDER BY number LIMIT \(rows)
          )
          """),
      ]
    },
    RemovalPage(rows: 1000) { account, rows in
      let account = PostgresParameter(account)
      return [
        PostgresStep(
          "remove_account_events",
          """
          DELETE FROM notification_events WHERE account = \(account) AND number IN (
            SELECT number FROM notification_events WHERE account = \(account) ORDER BY number LIMIT \(rows)
          )
          """)
      ]
    },
    RemovalPage(rows: 1000) { account, rows in
      [
        PostgresStep(
          "remove_account_members",
          """
          DELETE FROM notification_members WHERE (account, group_key, recipient) IN (
            SELECT account, group_key, recipient FROM notification_members WHERE account = \(account) LIMIT \(rows)
          )
          """)
      ]
    },
    RemovalPage(rows: 1000) { account, rows in
      [
        PostgresStep(
          "release_recipients",
          """
          UPDATE notification_recipients SET account = NULL, key = '', active = false WHERE number IN (
            SELECT number FROM notification_recipients WHERE account = \(account) LIMIT \(rows)
          )
          """)
      ]
    },
  ]
}
