import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func addNotificationAccount(_ account: NotificationAccount) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run(
        """
        INSERT INTO notification_accounts (name, password_salt, password_hash, permitted, credits, quota, quota_period,
          event_url, event_method, events_pushed, created)
        SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, last, ? FROM notification_numbers WHERE true
        ON CONFLICT (name) DO NOTHING
        """,
        [
          account.name.text, Data(account.password.salt), Data(account.password.hash), account.isPermitted,
          account.credits, account.quota?.max, account.quota?.period.rawValue, account.eventTarget?.url,
          account.eventTarget?.method.rawValue, account.created.millis,
        ])
      return db.changesCount == 1
    }
  }

  package func notificationAccount(_ name: NotificationUser, now: Timestamp) async throws(StoreError)
    -> NotificationAccount?
  {
    try await read { db in
      try db.row("\(Self.accountQuery) WHERE name = \(name.text)").map { try Self.account($0, now: now) }
    }
  }

  package func notificationAccounts(now: Timestamp) async throws(StoreError) -> [NotificationAccount] {
    try await read { db in
      try db.rows("\(Self.accountQuery) ORDER BY name").map { try Self.account($0, now: now) }
    }
  }

  package func changeNotificationAccount(
    _ name: NotificationUser, _ change: NotificationAccountChange, now: Timestamp
  ) async throws(StoreError) -> Bool {
    try await write { db in
      let key = name.text
      guard try db.row("SELECT 1 FROM notification_accounts WHERE name = ?", [key]) != nil else { return false }
      if let password = change.password {
        try db.run(
          "UPDATE notification_accounts SET password_salt = ?, password_hash = ? WHERE name = ?",
          [Data(password.salt), Data(password.hash), key])
      }
      if let isPermitted = change.isPermitted {
        try db.run("UPDATE notification_accounts SET permitted = ? WHERE name = ?", [isPermitted, key])
      }
      if case .set(let credits) = change.credits {
        try db.run("UPDATE notification_accounts SET credits = ? WHERE name = ?", [credits, key])
      }
      if case .set(let quota) = change.quota {
        try db.run(
          "UPDATE notification_accounts SET quota = ?, quota_period = ?, quota_used = 0 WHERE name = ?",
          [quota?.max, quota?.period.rawValue, key])
      }
      if case .set(let target) = change.eventTarget {
        try db.run(
          """
          UPDATE notification_accounts SET
            events_pushed = CASE WHEN event_url IS NULL THEN (SELECT last FROM notification_numbers)
              ELSE events_pushed END,
            event_url = ?, event_method = ?, event_attempts = 0, event_due = 0
          WHERE name = ?
          """, [target?.url, target?.method.rawValue, key])
      }
      return true
    }
  }

  package func removeNotificationAccount(
    _ name: NotificationUser, progress: @Sendable (Int) -> Void
  ) async throws(StoreError) -> Bool {
    let key = name.text
    // No send begins from then on, and no registration.
    let isKnown = try await write { db in
      try db.run("UPDATE notification_accounts SET permitted = 0 WHERE name = ?", [key])
      return db.changesCount == 1
    }
    guard isKnown else { return false }
    var gone = 0
    for (statement, rows) in Self.removal {
      while true {
        // Others get their turn in between.
        let count = try await write { db in
          try db.run(statement, [key, rows])
          return db.changesCount
        }
        gone += count
        progress(gone)
        guard count == rows else { break }
      }
    }
    // With whatever was made meanwhile.
    return try await write { db in
      try db.run("DELETE FROM notification_accounts WHERE name = ?", [key])
      guard db.changesCount == 1 else { return false }
      for (statement, _) in Self.removal { try db.run(statement, [key, Int.max]) }
      return true
    }
  }

  /// In the order in which they go; how many rows of each at a time. A notification goes with up to 10,000 recipients and
  /// pushes.
  private static let removal = [
    (
      """
      DELETE FROM notifications WHERE number IN (SELECT number FROM notifications WHERE account = ?1 LIMIT ?2)
      """, 20
    ),
    (
      """
      DELETE FROM notification_events WHERE number IN (
        SELECT number FROM notification_events WHERE account = ?1 LIMIT ?2
      )
      """, 1000
    ),
    (
      """
      DELETE FROM notification_members WHERE account = ?1 AND (group_key, recipient) IN (
        SELECT group_key, recipient FROM notification_members WHERE account = ?1 LIMIT ?2
      )
      """, 1000
    ),
    (
      """
      UPDATE notification_recipients SET account = NULL, key = '', active = 0 WHERE number IN (
        SELECT number FROM notification_recipients WHERE account = ?1 LIMIT ?2
      )
      """, 1000
    ),
  ]

  package func raiseMessageNumber(to number: Int64) async throws(StoreError) {
    try await write { db in try db.run("UPDATE notification_numbers SET last = max(last, ?)", [number]) }
  }

  private static let accountQuery: SQL = """
    SELECT name, password_salt, password_hash, permitted, credits, quota, quota_period, quota_mark, quota_used,
      event_url, event_method, created
    FROM notification_accounts
    """

  private static func account(_ row: Fields, now: Timestamp) throws -> NotificationAccount {
    let quota = try optionalQuota(max: row.optionalInteger(5), period: row.optionalText(6))
    let isPresent = try quota?.period.mark(at: now) == row.integer(7)
    return try NotificationAccount(
      name: Fields.valid(NotificationUser(row.text(0))),
      password: PasswordHash(salt: row.bytes(1), hash: row.bytes(2)), isPermitted: row.flag(3),
      credits: row.optionalInteger(4), quota: quota, used: isPresent ? row.integer(8) : 0,
      eventTarget: eventTarget(url: row.optionalText(9), method: row.optionalText(10)), created: row.time(11))
  }

  static func optionalQuota(max: Int64?, period: String?) throws -> NotificationQuota? {
    guard let max, let period else { return nil }
    return NotificationQuota(max: max, period: try Fields.valid(NotificationQuota.Period(rawValue: period)))
  }

  static func eventTarget(url: String?, method: String?) throws -> EventTarget? {
    guard let url, let method else { return nil }
    return EventTarget(url: url, method: try Fields.valid(EventTarget.Method(rawValue: method)))
  }
}
