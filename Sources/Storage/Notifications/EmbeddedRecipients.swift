import GRDB
package import RelayCore

// One writer at a time: what a transaction reads holds to its end.

extension EmbeddedStorage {
  package func recipient(_ number: RecipientNumber, of account: NotificationUser) async throws(StoreError)
    -> NotificationRecipient?
  {
    try await read { db in
      try db.row(
        """
        SELECT provider, key, active, created, changed FROM notification_recipients WHERE number = ? AND account = ?
        """, [number.value, account.text]
      ).map {
        try NotificationRecipient(
          number: number, key: Self.key($0, at: 0), isActive: $0.flag(2), created: $0.time(3), changed: $0.time(4))
      }
    }
  }

  package func addRecipient(
    _ number: RecipientNumber, _ key: RecipientKey, of account: NotificationUser, subject: NotificationText,
    recipientsMax: Int64, now: Timestamp
  ) async throws(StoreError) -> RecipientAddition {
    try await write { db in
      let known = try db.row(
        "SELECT recipients FROM notification_accounts WHERE name = ? AND permitted", [account.text])
      guard let known else { return .unknownAccount }
      guard try known.integer(0) < recipientsMax else { return .accountFull }
      try db.run(
        """
        INSERT INTO notification_recipients (number, account, provider, key, active, created, changed)
        VALUES (?1, ?2, ?3, ?4, 1, ?5, ?5) ON CONFLICT (number) DO NOTHING
        """, [number.value, account.text, key.provider.rawValue, key.text, now.millis])
      guard db.changesCount == 1 else { return .numberTaken }
      try db.run("UPDATE notification_accounts SET recipients = recipients + 1 WHERE name = ?", [account.text])
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
        "SELECT 1 FROM notification_recipients WHERE number = ? AND account = ? AND active",
        [number.value, account.text])
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
      "SELECT active, provider, key FROM notification_recipients WHERE number = ? AND account = ?",
      [number.value, account.text])
    guard let former else { return nil }
    let formerKey = try Self.key(former, at: 1)
    if try former.flag(0), formerKey.text != key.text || formerKey.provider.service != key.provider.service {
      try db.copyPushes(of: number, account, formerKey)
    }
    try db.run(
      "UPDATE notification_recipients SET provider = ?, key = ?, active = 1, changed = ? WHERE number = ?",
      [key.provider.rawValue, key.text, now.millis, number.value])
    // Pushes that wait go where the key now leads.
    try db.run(
      "UPDATE notification_jobs SET service = ?1 WHERE recipient = ?2 AND service <> ?1",
      [key.provider.service.rawValue, number.value])
    return try former.flag(0)
  }

  static func key(_ row: Fields, at index: Int) throws -> RecipientKey {
    try RecipientKey(
      provider: Fields.valid(NotificationProvider(rawValue: row.text(index))), text: row.text(index + 1))
  }
}

extension Database {
  /// No push goes to it any more.
  func deactivate(_ number: RecipientNumber, now: Timestamp) throws {
    try run(
      "UPDATE notification_recipients SET active = 0, changed = ? WHERE number = ?", [now.millis, number.value])
    try handOverPushes(of: number)
    try run("DELETE FROM notification_jobs WHERE recipient = ?", [number.value])
  }

  /// What waits for a recipient that is inactive goes to another one with its key, if it is for that one too.
  private func handOverPushes(of number: RecipientNumber) throws {
    let heirs = try rows(
      """
      SELECT k.id, min(o.number) FROM notification_jobs AS k JOIN notification_recipients AS r ON r.number = k.recipient
      JOIN notification_recipients AS o ON o.key = r.key AND o.active AND o.account = r.account AND o.number <> r.number
        AND (o.provider = 'apns') = (r.provider = 'apns')
      JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = k.number
      WHERE k.recipient = ? GROUP BY k.id
      """, [number.value]
    ).map { try (push: $0.integer(0), recipient: $0.integer(1)) }
    for heir in heirs {
      try run("UPDATE notification_jobs SET recipient = ? WHERE id = ?", [heir.recipient, heir.push])
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
      JOIN notification_recipients AS o ON o.key = ?2 AND o.active AND o.account = ?3 AND o.number <> ?1
        AND (o.provider = 'apns') = ?4
      JOIN notification_addressees AS a ON a.recipient = o.number AND a.number = j.number
      WHERE j.recipient = ?1 AND NOT EXISTS (
        SELECT 1 FROM notification_jobs AS k JOIN notification_recipients AS q ON q.number = k.recipient
        WHERE k.number = j.number AND k.recipient <> ?1 AND q.key = ?2
      )
      GROUP BY j.id
      """, [number.value, former.text, account.text, former.provider.service == .apns])
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
    try run(
      """
      INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
      VALUES (?, ?, ?, ?, ?, ?, ?)
      """,
      [
        try nextMessageNumber(), account.text, now.millis, action.rawValue, recipient.value, isOurs,
        subject.value.opaque,
      ])
  }
}
