package import RelayCore

extension PostgresStorage {
  package func claimPushes(
    of service: NotificationService, limit: Int, for life: Duration, now: Timestamp
  ) async throws(StoreError) -> [NotificationJob] {
    let result = try await write(
      "claim_pushes",
      """
      WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now),
        due AS MATERIALIZED (
          SELECT id FROM notification_jobs
          WHERE service = \(service.rawValue) AND due <= \(now) AND claimed <= (SELECT now FROM clock)
          ORDER BY due, id LIMIT \(Int64(limit)) FOR UPDATE SKIP LOCKED
        ),
        dropped AS (
          DELETE FROM notification_jobs AS j USING due, notification_recipients AS r
          WHERE j.id = due.id AND r.number = j.recipient AND NOT r.active
        ),
        claimed AS (
          UPDATE notification_jobs AS j
          SET claimed = (SELECT now FROM clock) + \(life.wholeMillis), attempts = attempts + 1
          FROM due, notification_recipients AS r WHERE j.id = due.id AND r.number = j.recipient AND r.active
          RETURNING j.id, j.attempts, j.expires, r.number AS recipient, r.provider, r.key, j.number
        )
      SELECT c.id, c.attempts, c.expires, c.recipient, c.provider, c.key, n.number, n.sent, n.text, n.waits_while_idle,
        n.collapse_key, n.time_to_live, n.package_name
      FROM claimed AS c JOIN notifications AS n ON n.number = c.number
      ORDER BY c.id
      """)
    return try result.all(NotificationJob.init(row:))
  }

  package func settlePushes(_ settlements: [PushSettlement]) async throws(StoreError) {
    var finished: [Int64] = []
    var delays: [(job: NotificationJob, due: Int64, uncounted: Int64)] = []
    for settlement in settlements {
      switch settlement.outcome {
      case .finished: finished.append(settlement.job.id)
      case .putOff(let time, let isCounted): delays.append((settlement.job, time.millis, isCounted ? 0 : 1))
      }
    }
    var steps: [PostgresStep] = []
    if !finished.isEmpty { steps.append(Self.finishStep(finished)) }
    if !delays.isEmpty { steps.append(Self.putOffStep(delays)) }
    guard !steps.isEmpty else { return }
    _ = try await write(steps)
  }

  // A statement that locks several pushes does so by their ids in order.

  private static func finishStep(_ ids: [Int64]) -> PostgresStep {
    PostgresStep(
      "finish_pushes",
      """
      DELETE FROM notification_jobs WHERE id IN (
        SELECT id FROM notification_jobs WHERE id = ANY (\(each: ids)) ORDER BY id FOR UPDATE
      )
      """)
  }

  private static func putOffStep(
    _ delays: [(job: NotificationJob, due: Int64, uncounted: Int64)]
  ) -> PostgresStep {
    PostgresStep(
      "put_off_pushes",
      """
      UPDATE notification_jobs AS j SET due = d.due, claimed = 0, attempts = j.attempts - d.uncounted::integer
      FROM (
        SELECT o.id, u.due, u.uncounted
        FROM unnest(\(each: delays.lazy.map(\.job.id)), \(each: delays.lazy.map { Int64($0.job.attempt) }),
          \(each: delays.lazy.map(\.due)), \(each: delays.lazy.map(\.uncounted))) AS u (id, attempts, due, uncounted)
        JOIN notification_jobs AS o ON o.id = u.id AND o.attempts = u.attempts
        ORDER BY o.id FOR UPDATE OF o
      ) AS d
      WHERE j.id = d.id
      """)
  }

  package func keyIsDead(
    _ job: NotificationJob, since: Timestamp?, now: Timestamp
  ) async throws(StoreError) -> Bool {
    let now = PostgresParameter(now)
    let since = PostgresParameter(since)
    let results = try await writeNotifications([
      // As `accountTurn`.
      PostgresStep(
        "recipients_account_turn",
        """
        SELECT 1 FROM notification_accounts
        WHERE name = (SELECT account FROM notification_recipients WHERE number = \(job.recipient)) FOR NO KEY UPDATE
        """),
      PostgresStep(
        "key_is_dead",
        """
        WITH gone AS (
            UPDATE notification_recipients SET active = false, changed = \(now)
            WHERE number = \(job.recipient) AND active AND account IS NOT NULL
              AND provider = \(job.key.provider.rawValue) AND key = \(job.key.text)
              AND (\(since) IS NULL OR changed <= \(since))
            RETURNING number, account
          ),
          numbered AS (
            UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM gone) RETURNING last
          )
        INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
        SELECT n.last, gone.account, \(now), 3, gone.number, true,
          \(opaque: NotificationEvent.ownSubject(job.recipient).value) FROM gone CROSS JOIN numbered AS n
        """),
      Self.handOverPushesStep(job.recipient),
      Self.dropPushesStep(job.recipient),
      // Another key may have come meanwhile: then this push is for it.
      PostgresStep(
        "forget_dead_push",
        """
        DELETE FROM notification_jobs AS j USING notification_recipients AS r
        WHERE j.id = \(job.id) AND j.recipient = \(job.recipient) AND r.number = j.recipient
          AND r.provider = \(job.key.provider.rawValue)
          AND r.key = \(job.key.text)
        """),
    ])
    return results.dropFirst().first?.affectedRows == 1
  }

  package func notificationQueues() async throws(StoreError) -> [NotificationQueue] {
    let result = try await readBulk(
      "notification_queues",
      """
      SELECT s.service,
        (
          SELECT count(*) FROM (
            SELECT FROM notification_jobs WHERE service = s.service LIMIT \(Int64(NotificationLimits.countedMax))
          ) AS c
        ),
        (SELECT min(queued) FROM notification_jobs WHERE service = s.service)
      FROM unnest(\(each: NotificationService.allCases.lazy.map(\.rawValue))) AS s (service)
      """)
    return try result.all(NotificationQueue.init(row:))
  }

  package func forgetNotifications(
    before time: Timestamp, pushesEndedBy end: Timestamp
  ) async throws(StoreError) {
    try await forget(upTo: 1000) { rows in
      let end = PostgresParameter(end)
      return PostgresStep(
        "forget_pushes",
        """
        DELETE FROM notification_jobs WHERE id IN (
          SELECT id FROM notification_jobs WHERE expires < \(end) AND due < \(end)
          ORDER BY id LIMIT \(rows) FOR UPDATE
        )
        """)
    }
    // A notification goes with up to 10,000 rows.
    try await forget(upTo: 20) { rows in
      PostgresStep(
        "forget_notifications",
        """
        DELETE FROM notifications WHERE number IN (
          SELECT number FROM notifications AS n WHERE sent < \(time)
            AND NOT EXISTS (SELECT FROM notification_jobs AS j WHERE j.number = n.number)
          ORDER BY sent LIMIT \(rows)
        )
        """)
    }
    try await forget(upTo: 1000) { rows in
      PostgresStep(
        "forget_events",
        """
        DELETE FROM notification_events WHERE (account, number) IN (
          SELECT account, number FROM notification_events WHERE created < \(time) ORDER BY created LIMIT \(rows)
        )
        """)
    }
  }

  /// Repeats a step, a transaction each, until it finds less than `rows`, which it may take.
  private func forget(upTo rows: Int64, _ step: (_ rows: Int64) -> PostgresStep) async throws(StoreError) {
    let step = step(rows)
    while try await writeBulk([step]).first?.affectedRows == Int(rows) {}
  }
}

extension NotificationQueue {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let service = try row.required(NotificationService(rawValue: row.text()))
    self.init(service: service, waiting: Int(try row.bigint()), oldest: try row.optionalTimestamp())
  }
}

extension NotificationJob {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let (id, attempt, expires) = (try row.bigint(), Int(try row.integer()), try row.timestamp())
    let (recipient, key) = (try row.recipientNumber(), try RecipientKey(row: &row))
    let (number, sent, text) = (try row.bigint(), try row.timestamp(), NotificationText(try row.opaque()))
    let notification = DeviceNotification(
      text: text, waitsWhileIdle: try row.boolean(), collapseKey: row.optionalOpaque(),
      timeToLive: try row.optionalBigint(), packageName: row.optionalText())
    self.init(
      id: id, attempt: attempt, expires: expires, recipient: recipient, key: key, number: number, sent: sent,
      notification: notification)
  }
}
