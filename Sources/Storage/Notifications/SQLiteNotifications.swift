import GRDB
package import RelayCore

extension SQLiteStorage {
  package func send(
    _ notification: DeviceNotification, to addresses: [NotificationAddress], of account: NotificationUser,
    recipientsMax: Int, now: Timestamp, due: Timestamp
  ) async throws(StoreError) -> SendOutcome {
    try await write { db in
      let known = try db.row(
        """
        SELECT credits, quota, quota_period, quota_mark, quota_used FROM notification_accounts
        WHERE name = \(account) AND permitted
        """)
      guard let known else { return .denied }
      let numbers = try Self.resolve(addresses, of: account, in: db)
      let recipients = try Self.active(numbers, max: recipientsMax + 1, in: db)
      let count = Int64(recipients.count)
      guard count > 0 else { return .noRecipients }
      guard count <= recipientsMax else { return .tooManyRecipients }
      let quota = try NotificationQuota(optional: known, at: 1)
      let mark = quota?.period.mark(at: now, after: try known.integer(3)) ?? 0
      let used = try known.integer(3) == mark ? known.integer(4) : 0
      if let quota, quota.max - used < count { return .quotaExceeded }
      if let credits = known.optionalInteger(0), credits < count { return .notEnoughCredits }
      try db.run(
        """
        UPDATE notification_accounts
        SET credits = credits - \(count), quota_mark = \(mark), quota_used = \(used + count) WHERE name = \(account)
        """)
      let number = try db.nextMessageNumber()
      try Self.store(notification, number, to: recipients, of: account, now: now, due: due, in: db)
      return .sent(number: number, recipients: recipients.count)
    }
  }

  /// The numbers that the words stand for, in no order, each once.
  private static func resolve(
    _ addresses: [NotificationAddress], of account: NotificationUser, in db: Database
  ) throws -> Set<Int64> {
    var numbers: Set<Int64> = []
    for address in Set(addresses) {
      if let number = address.number {
        let recipient = try db.row(
          "SELECT 1 FROM notification_recipients WHERE number = \(number) AND account = \(account)")
        if recipient != nil {
          numbers.insert(number.value)
          continue
        }
      }
      let group = try db.row(
        """
        SELECT name_key FROM notification_groups
        WHERE account = \(account) AND (name_key = \(address.nameKey) OR short_key = \(address.nameKey))
        ORDER BY name_key = \(address.nameKey) DESC LIMIT 1
        """)
      guard let group else { continue }
      let members = try db.rows(
        """
        SELECT m.recipient FROM notification_members AS m
        JOIN notification_recipients AS r ON r.number = m.recipient AND r.account = m.account
        WHERE m.account = \(account) AND m.group_key = \(group.text(0))
        """)
      for member in members { numbers.insert(try member.integer(0)) }
    }
    return numbers
  }

  /// The active recipients among `numbers`, ascending, at most `max`.
  private static func active(
    _ numbers: Set<Int64>, max: Int, in db: Database
  ) throws -> [(number: Int64, key: RecipientKey)] {
    var recipients: [(number: Int64, key: RecipientKey)] = []
    for number in numbers.sorted() where recipients.count < max {
      let row = try db.row("SELECT provider, key FROM notification_recipients WHERE number = \(number) AND active")
      if let row { recipients.append((number, try RecipientKey(row: row, at: 0))) }
    }
    return recipients
  }

  private static func store(
    _ notification: DeviceNotification, _ number: Int64, to recipients: [(number: Int64, key: RecipientKey)],
    of account: NotificationUser, now: Timestamp, due: Timestamp, in db: Database
  ) throws {
    try db.run(
      """
      INSERT INTO notifications (number, account, sent, text, waits_while_idle, collapse_key, time_to_live,
        package_name)
      VALUES (\(number), \(account), \(now), \(opaque: notification.text.value), \(notification.waitsWhileIdle),
        \(opaque: notification.collapseKey), \(notification.timeToLive), \(notification.packageName))
      """)
    let end = due.adding(notification.life).millis
    var keys: Set<String> = []
    for recipient in recipients {
      try db.run("INSERT INTO notification_addressees (recipient, number) VALUES (\(recipient.number), \(number))")
      let service = recipient.key.provider.service.rawValue
      guard keys.insert("\(service) \(recipient.key.text)").inserted else { continue }
      try db.run(
        """
        INSERT INTO notification_jobs (service, number, recipient, queued, due, expires)
        VALUES (\(service), \(number), \(recipient.number), \(due), \(due), \(end))
        """)
    }
  }

  package func notifications(
    for recipient: RecipientNumber, after: Int64, since: Timestamp?, limit: Int
  ) async throws(StoreError) -> [SentNotification] {
    try await read { db in
      try db.rows(
        """
        SELECT n.number, n.sent, n.text FROM notification_addressees AS a JOIN notifications AS n ON n.number = a.number
        WHERE a.recipient = \(recipient) AND a.number > \(after) AND n.sent >= \(since?.millis ?? Int64.min)
        ORDER BY a.number LIMIT \(limit)
        """
      ).map(SentNotification.init(row:))
    }
  }

  package func events(of account: NotificationUser, after: Int64, limit: Int) async throws(StoreError)
    -> [NotificationEvent]
  {
    try await read { db in
      try db.rows(
        """
        SELECT number, created, action, recipient, ours, subject FROM notification_events
        WHERE account = \(account) AND number > \(after) ORDER BY number LIMIT \(limit)
        """
      ).map(NotificationEvent.init(row:))
    }
  }

  package func eventTurns(limit: Int, without busy: [NotificationUser], now: Timestamp) async throws(StoreError)
    -> [EventTurn]
  {
    try await read { db in
      try db.rows(
        """
        SELECT name, event_url, event_method, events_pushed, event_attempts FROM notification_accounts AS a
        WHERE event_url IS NOT NULL AND event_due <= \(now) AND EXISTS (
          SELECT 1 FROM notification_events AS e WHERE e.account = a.name AND e.number > a.events_pushed
        )
          AND name NOT IN (SELECT value FROM json_each(\(Self.list(busy))))
        ORDER BY event_turn, name LIMIT \(limit)
        """
      ).map(EventTurn.init(row:))
    }
  }

  package func eventWasPushed(_ number: Int64, of account: NotificationUser, now: Timestamp) async throws(StoreError) {
    try await write { db in
      try db.run(
        """
        UPDATE notification_accounts
        SET events_pushed = \(number), event_attempts = 0, event_due = 0, event_turn = \(now)
        WHERE name = \(account) AND events_pushed < \(number)
        """)
    }
  }

  package func putOffEvents(
    of account: NotificationUser, after pushed: Int64, attempts: Int, until time: Timestamp
  ) async throws(StoreError) {
    try await write { db in
      try db.run(
        """
        UPDATE notification_accounts SET event_attempts = \(attempts), event_due = \(time)
        WHERE name = \(account) AND events_pushed = \(pushed)
        """)
    }
  }

  /// As JSON. Names hold nothing that it would escape.
  private static func list(_ names: [NotificationUser]) -> String {
    "[" + names.map { "\"\($0.text)\"" }.joined(separator: ",") + "]"
  }
}

extension SentNotification {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(number: try row.integer(0), sent: try row.time(1), text: NotificationText(try row.opaque(2)))
  }
}

extension NotificationEvent {
  fileprivate init(row: Fields) throws(StoreError) {
    let action = try EventAction(rawValue: Int16(truncatingIfNeeded: row.integer(2)))
    self.init(
      number: try row.integer(0), created: try row.time(1), action: try Fields.valid(action),
      recipient: try Fields.valid(RecipientNumber(row.integer(3))), isOurs: try row.flag(4),
      subject: NotificationText(try row.opaque(5)))
  }
}

extension EventTurn {
  fileprivate init(row: Fields) throws(StoreError) {
    let target = try EventTarget(optional: row, at: 1)
    self.init(
      account: try Fields.valid(NotificationUser(row.text(0))), target: try Fields.valid(target),
      pushed: try row.integer(3), attempts: Int(try row.integer(4)))
  }
}
