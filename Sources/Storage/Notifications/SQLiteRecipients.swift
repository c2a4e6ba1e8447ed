import GRDB
package import RelayCore

// One writer at a time: what a transaction reads holds to its end.

extension SQLiteStorage {
  package func recipient(_ number: RecipientNumber, of account: NotificationUser) async throws(StoreError)
    -> NotificationRecipient?
  {
    try await read { db in
      try db.row(
        """
        SELECT provider, key, active, created, changed FROM notification_recipients
        WHERE number = \(number) AND account = \(account)
        """
      ).map {
        try NotificationRecipient(
          number: number, key: RecipientKey(row: $0, at: 0), isActive: $0.flag(2), created: $0.time(3),
          changed: $0.time(4))
      }
    }
  }

  package func addRecipient(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    recipientsMax: Int64, now: Timestamp
  ) async throws(StoreError) -> RecipientAddition {
    try await write { db in
      let known = try db.row("SELECT recipients FROM notification_accounts WHERE name = \(account) AND permitted")
      guard let known else { return .unknownAccount }
      guard try known.integer(0) < recipientsMax else { return .accountFull }
      try db.run(
        """
        INSERT INTO notification_recipients (number, account, provider, key, active, created, changed)
        VALUES (\(number), \(account), \(key.provider.rawValue), \(key.text), 1, \(now), \(now))
        ON CONFLICT (number) DO NOTHING
        """)
      guard db.changesCount == 1 else { return .numberTaken }
      try db.run("UPDATE notification_accounts SET recipients = recipients + 1 WHERE name = \(account)")
      try db.add(.subscribed, of: number, account, subject: subject, now: now)
      return .added
    }
  }

  package func subscribe(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    now: Timestamp
  ) async throws(StoreError) -> Bool {
    try await write { db in
      guard try Self.replace(number, by: key, of: account, now: now, in: db) != nil else { return false }
      try db.add(.subscribed, of: number, account, subject: subject, now: now)
      return true
    }
  }

  package func replaceKey(
    of number: RecipientNumber, by key: RecipientKey, of account: NotificationUser, now: Timestamp
  ) async throws(StoreError) -> KeyReplacement {
    try await write { db in
      guard let wasActive = try Self.replace(number, by: key, of: account, now: now, in: db) else {
        return .unknownRecipient
      }
      return wasActive ? .replaced : .reactivated
    }
  }

  package func unsubscribe(
    _ number: RecipientNumber, of account: NotificationUser, fromAll: Bool, subject: NotificationText, now: Timestamp
  ) async throws(StoreError) {
    try await write { db in
      let known = try db.row(
        "SELECT 1 FROM notification_recipients WHERE number = \(number) AND account = \(account) AND active")
      guard known != nil else { return }
      if fromAll { try db.deactivate(number, now: now) }
      try db.add(fromAll ? .unsubscribedAll : .unsubscribed, of: number, account, subject: subject, now: now)
    }
  }

  /// - Returns: whether it was active; nil when there is none.
  private static func replace(
    _ number: RecipientNumber, by key: RecipientKey, of account: NotificationUser, now: Timestamp, in db: Database
  ) throws -> Bool? {
    let former = try db.row(
      "SELECT active, provider, key FROM notification_recipients WHERE number = \(number) AND account = \(account)")
    guard let former else { return nil }
    let formerKey = try RecipientKey(row: former, at: 1)
    if try former.flag(0), formerKey.text != key.text || formerKey.provider.service != key.provider.service {
      try db.copyPushes(of: number, account, formerKey)
    }
    try db.run(
      """
      UPDATE notification_recipients
      SET provider = \(key.provider.rawValue), key = \(key.text), active = 1, changed = \(now)
      WHERE number = \(number)
      """)
    // Pushes that wait go where the key now leads.
    try db.run(
      """
      UPDATE notification_jobs SET service = \(key.provider.service.rawValue)
      WHERE recipient = \(number) AND service <> \(key.provider.service.rawValue)
      """)
    return try former.flag(0)
  }
}

extension RecipientKey {
  /// Two columns.
  init(row: Fields, at index: Int) throws(StoreError) {
    self.init(
      provider: try Fields.valid(NotificationProvider(rawValue: row.text(index))), text: try row.text(index + 1))
  }
}

extension SQLInterpolation {
  mutating func appendInterpolation(_ number: RecipientNumber) { appendInterpolation(number.value) }
}

extension Database {
  /// No push goes to it any more.
  func deactivate(_ number: RecipientNumber, now: Timestamp) throws {
    try run("UPDATE notification_recipients SET active = 0, changed = \(now) WHERE number = \(number)")
    try handOverPushes(of: number)
    try run("DELETE FROM notification_jobs WHERE recipient = \(number)")
  }

  /// Pushes that wait for an inactive recipient go to another one with its key, if they are for that one too.
  private func handOverPushes(of number: RecipientNumber) throws {
    let heirs = try rows(
      """
      SELECT k.id, min(o.number) FROM notification_jobs AS k JOIN notification_recipients AS r ON r.number = k.recipient
      JOIN notification_recipients AS o ON o.key = r.key AND o.active AND o.account = r.account AND o.number <> r.number
        AND (o.provider = 'apns') = (r.provider = 'apns')
      JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = k.number
      WHERE k.recipient = \(number) GROUP BY k.id
      """
    ).map { try (push: $0.integer(0), recipient: $0.integer(1)) }
    for heir in heirs {
      try run("UPDATE notification_jobs SET recipient = \(heir.recipient) WHERE id = \(heir.push)")
    }
  }

  /// Pushes are the recipient's in whose stead nobody else with the same key gets them: where its key changes, somebody
  /// else has to.
  fileprivate func copyPushes(of number: RecipientNumber, _ account: NotificationUser, _ former: RecipientKey) throws {
    try run(
      """
      INSERT INTO notification_jobs (service, number, recipient, queued, due, claimed, expires)
      SELECT j.service, j.number, min(o.number), j.queued, j.due, j.claimed, j.expires
      FROM notification_jobs AS j
      JOIN notification_recipients AS o ON o.key = \(former.text) AND o.active AND o.account = \(account)
        AND o.number <> \(number)
        AND (o.provider = 'apns') = \(former.provider.service == .apns)
      JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = j.number
      WHERE j.recipient = \(number) AND NOT EXISTS (
        SELECT 1 FROM notification_jobs AS k JOIN notification_recipients AS q ON q.number = k.recipient
        WHERE k.number = j.number AND k.recipient <> \(number) AND q.key = \(former.text)
      )
      GROUP BY j.id
      """)
  }

  /// The next message number, which is the caller's when its transaction commits.
  func nextMessageNumber() throws -> Int64 {
    try run("UPDATE notification_numbers SET last = last + 1")
    return try Fields.valid(row("SELECT last FROM notification_numbers")).integer(0)
  }

  func add(
    _ action: EventAction, of recipient: RecipientNumber, _ account: NotificationUser, isOurs: Bool = false,
    subject: NotificationText, now: Timestamp
  ) throws {
    let number = try nextMessageNumber()
    try run(
      """
      INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
      VALUES (\(number), \(account), \(now), \(action.rawValue), \(recipient), \(isOurs),
        \(opaque: subject.value))
      """)
  }
}
