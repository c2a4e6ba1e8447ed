import GRDB
package import RelayCore

extension SQLiteStorage {
  package func addNotificationAccount(_ account: NotificationAccount) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run(
        """
        INSERT INTO notification_accounts (name, password_salt, password_hash, permitted, credits, quota, quota_period,
          event_url, event_method, events_pushed, created)
        SELECT \(account.name), \(account.password.salt), \(account.password.hash), \(account.isPermitted),
          \(account.credits), \(account.quota?.max), \(account.quota?.period.rawValue), \(account.eventTarget?.url),
          \(account.eventTarget?.method.rawValue), last, \(account.created)
        FROM notification_numbers WHERE true
        ON CONFLICT (name) DO NOTHING
        """)
      return db.changesCount == 1
    }
  }

  package func notificationAccount(_ name: NotificationUser, now: Timestamp) async throws(StoreError)
    -> NotificationAccount?
  {
    try await read { db in
      try db.row("\(Self.accountQuery) WHERE name = \(name)").map { try NotificationAccount(row: $0, now: now) }
    }
  }

  package func notificationAccounts(now: Timestamp) async throws(StoreError) -> [NotificationAccount] {
    try await read { db in
      try db.rows("\(Self.accountQuery) ORDER BY name").map { try NotificationAccount(row: $0, now: now) }
    }
  }

  package func changeNotificationAccount(
    _ name: NotificationUser, _ change: NotificationAccountChange, now: Timestamp
  ) async throws(StoreError) -> Bool {
    try await write { db in
      guard try db.row("SELECT 1 FROM notification_accounts WHERE name = \(name)") != nil else { return false }
      if let password = change.password {
        try db.run(
          """
          UPDATE notification_accounts SET password_salt = \(password.salt), password_hash = \(password.hash)
          WHERE name = \(name)
          """)
      }
      if let isPermitted = change.isPermitted {
        try db.run("UPDATE notification_accounts SET permitted = \(isPermitted) WHERE name = \(name)")
      }
      if case .set(let credits) = change.credits {
        try db.run("UPDATE notification_accounts SET credits = \(credits) WHERE name = \(name)")
      }
      if case .set(let quota) = change.quota {
        try db.run(
          """
          UPDATE notification_accounts
          SET quota = \(quota?.max), quota_period = \(quota?.period.rawValue), quota_used = 0 WHERE name = \(name)
          """)
      }
      if case .set(let target) = change.eventTarget {
        try db.run(
          """
          UPDATE notification_accounts SET
            events_pushed = CASE WHEN event_url IS NULL THEN (SELECT last FROM notification_numbers)
              ELSE events_pushed END,
            event_url = \(target?.url), event_method = \(target?.method.rawValue), event_attempts = 0, event_due = 0
          WHERE name = \(name)
          """)
      }
      return true
    }
  }

  package func removeNotificationAccount(
    _ name: NotificationUser, progress: @Sendable (Int) -> Void
  ) async throws(StoreError) -> Bool {
    // No send begins from then on, and no registration.
    let isKnown = try await write { db in
      try db.run("UPDATE notification_accounts SET permitted = 0 WHERE name = \(name)")
      return db.changesCount == 1
    }
    guard isKnown else { return false }
    var gone = 0
    for (rows, statement) in Self.removal {
      while true {
        // Others get their turn in between.
        let count = try await write { db in
          try db.run(statement(name, rows))
          return db.changesCount
        }
        gone += count
        progress(gone)
        guard count == rows else { break }
      }
    }
    // With whatever was made meanwhile.
    return try await write { db in
      try db.run("DELETE FROM notification_accounts WHERE name = \(name)")
      guard db.changesCount == 1 else { return false }
      for (_, statement) in Self.removal { try db.run(statement(name, .max)) }
      return true
    }
  }

  /// In the order in which they go; how many rows of each at a time. A notification goes with up to 10,000 recipients
  /// and pushes.
  private static let removal: [(rows: Int, statement: @Sendable (NotificationUser, Int) -> SQL)] = [
    (
      20,
      { account, rows in
        """
        DELETE FROM notifications
        WHERE number IN (SELECT number FROM notifications WHERE account = \(account) LIMIT \(rows))
        """
      }
    ),
    (
      1000,
      { account, rows in
        """
        DELETE FROM notification_events WHERE number IN (
          SELECT number FROM notification_events WHERE account = \(account) LIMIT \(rows)
        )
        """
      }
    ),
    (
      1000,
      { account, rows in
        """
        DELETE FROM notification_members WHERE account = \(account) AND (group_key, recipient) IN (
          SELECT group_key, recipient FROM notification_members WHERE account = \(account) LIMIT \(rows)
        )
        """
      }
    ),
    (
      1000,
      { account, rows in
        """
        UPDATE notification_recipients SET account = NULL, key = '', active = 0 WHERE number IN (
          SELECT number FROM notification_recipients WHERE account = \(account) LIMIT \(rows)
        )
        """
      }
    ),
  ]

  package func raiseMessageNumber(to number: Int64) async throws(StoreError) {
    try await write { db in try db.run("UPDATE notification_numbers SET last = max(last, \(number))") }
  }

  private static let accountQuery: SQL = """
    SELECT name, password_salt, password_hash, permitted, credits, quota, quota_period, quota_mark, quota_used,
      event_url, event_method, created
    FROM notification_accounts
    """
}

extension NotificationAccount {
  fileprivate init(row: Fields, now: Timestamp) throws(StoreError) {
    let quota = try NotificationQuota(optional: row, at: 5)
    let counted = try row.integer(7)
    let isPresent = quota?.period.mark(at: now, after: counted) == counted
    self.init(
      name: try Fields.valid(NotificationUser(row.text(0))),
      password: PasswordHash(salt: try row.bytes(1), hash: try row.bytes(2)), isPermitted: try row.flag(3),
      credits: row.optionalInteger(4), quota: quota, used: isPresent ? try row.integer(8) : 0,
      eventTarget: try EventTarget(optional: row, at: 9), created: try row.time(11))
  }
}

extension NotificationQuota {
  /// Two columns; nil where one is NULL.
  init?(optional row: Fields, at index: Int) throws(StoreError) {
    guard let max = row.optionalInteger(index), let period = row.optionalText(index + 1) else { return nil }
    self.init(max: max, period: try Fields.valid(Period(rawValue: period)))
  }
}

extension EventTarget {
  /// Two columns; nil where one is NULL.
  init?(optional row: Fields, at index: Int) throws(StoreError) {
    guard let url = row.optionalText(index), let method = row.optionalText(index + 1) else { return nil }
    self.init(url: url, method: try Fields.valid(Method(rawValue: method)))
  }
}

extension SQLInterpolation {
  mutating func appendInterpolation(_ account: NotificationUser) { appendInterpolation(account.text) }
}
