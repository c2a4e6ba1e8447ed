package import RelayCore

extension PostgresStorage {
  package func claimPushes(
    of service: NotificationService, limit: Int, now: Timestamp
  ) async throws(StoreError) -> [NotificationJob] {
    let result = try await write(
      .prepared(
        "claim_pushes",
        """
        WITH due AS MATERIALIZED (
            SELECT id FROM notification_jobs WHERE service = $1::text AND due <= $2::bigint
            ORDER BY due, id LIMIT $3::bigint FOR UPDATE SKIP LOCKED
          ),
          claimed AS (
            UPDATE notification_jobs AS j SET due = $4::bigint, attempts = attempts + 1 FROM due WHERE j.id = due.id
            RETURNING j.id, j.attempts, j.expires, j.recipient, j.number
          )
        SELECT c.id, c.attempts, c.expires, r.number, r.provider, r.key, n.number, n.sent, n.text, n.waits_while_idle,
          n.collapse_key, n.time_to_live, n.package_name
        FROM claimed AS c
        JOIN notification_recipients AS r ON r.number = c.recipient AND r.active
        JOIN notifications AS n ON n.number = c.number
        ORDER BY c.id
        """),
      PostgresParameters {
        $0.add(text: service.rawValue)
        $0.add(bigint: now.millis)
        $0.add(bigint: Int64(limit))
        $0.add(bigint: now.adding(NotificationLimits.claim).millis)
      })
    var jobs: [NotificationJob] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      jobs.append(try row.notificationJob())
    }
    return jobs
  }

  package func finishPush(_ job: NotificationJob) async throws(StoreError) {
    _ = try await write(
      .prepared("finish_push", "DELETE FROM notification_jobs WHERE id = $1::bigint"),
      PostgresParameters { $0.add(bigint: job.id) })
  }

  package func putOffPush(_ job: NotificationJob, until time: Timestamp, isCounted: Bool) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "put_off_push",
        """
        UPDATE notification_jobs SET due = $3::bigint, attempts = CASE WHEN $4::boolean THEN attempts ELSE attempts - 1 END
        WHERE id = $1::bigint AND attempts = $2::integer
        """),
      PostgresParameters {
        $0.add(bigint: job.id)
        $0.add(integer: Int32(clamping: job.attempt))
        $0.add(bigint: time.millis)
        $0.add(boolean: isCounted)
      })
  }

  package func keyIsDead(
    _ job: NotificationJob, since: Timestamp?, now: Timestamp
  ) async throws(StoreError) -> Bool {
    let results = try await write([
      PostgresStep(
        .prepared(
          "key_is_dead",
          """
          WITH gone AS (
              UPDATE notification_recipients SET active = false, changed = $5::bigint
              WHERE number = $1::bigint AND active AND account IS NOT NULL AND provider = $2::text AND key = $3::text
                AND ($4::bigint IS NULL OR changed <= $4::bigint)
              RETURNING number, account
            ),
            numbered AS (
              UPDATE notification_numbers SET last = last + 1 WHERE EXISTS (SELECT FROM gone) RETURNING last
            )
          INSERT INTO notification_events (number, account, created, action, recipient, ours, subject)
          SELECT n.last, gone.account, $5::bigint, 3, gone.number, true, $6::bytea FROM gone CROSS JOIN numbered AS n
          """),
        PostgresParameters {
          $0.add(bigint: job.recipient.value)
          $0.add(text: job.key.provider.rawValue)
          $0.add(text: job.key.text)
          $0.add(bigint: since?.millis)
          $0.add(bigint: now.millis)
          $0.add(opaque: NotificationEvent.ownSubject(job.recipient).value)
        }),
      Self.dropPushesStep(job.recipient),
      // Another key may have come meanwhile: then this push is for it.
      PostgresStep(
        .prepared(
          "forget_dead_push",
          """
          DELETE FROM notification_jobs AS j USING notification_recipients AS r
          WHERE j.id = $1::bigint AND r.number = j.recipient AND r.provider = $2::text AND r.key = $3::text
          """),
        PostgresParameters {
          $0.add(bigint: job.id)
          $0.add(text: job.key.provider.rawValue)
          $0.add(text: job.key.text)
        }),
    ])
    return results.first?.affectedRows == 1
  }

  package func notificationQueues() async throws(StoreError) -> [NotificationQueue] {
    let result = try await readBulk(
      .prepared(
        "notification_queues", "SELECT service, count(*), min(queued) FROM notification_jobs GROUP BY service"))
    var queues: [NotificationService: NotificationQueue] = [:]
    for index in result.rows {
      var row = result.cursor(row: index)
      let service = try row.required(NotificationService(rawValue: row.text()))
      queues[service] = NotificationQueue(
        service: service, waiting: Int(try row.bigint()), oldest: try row.optionalTimestamp())
    }
    return NotificationService.allCases.map { queues[$0] ?? NotificationQueue(service: $0, waiting: 0, oldest: nil) }
  }

  package func forgetNotifications(
    before time: Timestamp, pushesEndedBy end: Timestamp
  ) async throws(StoreError) {
    // A notification goes with up to 10,000 rows.
    try await forget(
      .prepared(
        "forget_notifications",
        """
        DELETE FROM notifications WHERE number IN (
          SELECT number FROM notifications WHERE sent < $1::bigint ORDER BY sent LIMIT $2::bigint
        )
        """), before: time, rows: 20)
    try await forget(
      .prepared(
        "forget_events",
        """
        DELETE FROM notification_events WHERE (account, number) IN (
          SELECT account, number FROM notification_events WHERE created < $1::bigint ORDER BY created LIMIT $2::bigint
        )
        """), before: time, rows: 1000)
    try await forget(
      .prepared(
        "forget_pushes",
        """
        DELETE FROM notification_jobs WHERE id IN (
          SELECT id FROM notification_jobs WHERE expires < $1::bigint AND due < $1::bigint LIMIT $2::bigint
        )
        """), before: end, rows: 1000)
  }

  /// Repeats `statement`, a transaction each, until it finds less than it may take.
  private func forget(
    _ statement: PostgresStatement, before time: Timestamp, rows: Int
  ) async throws(StoreError) {
    let parameters = PostgresParameters {
      $0.add(bigint: time.millis)
      $0.add(bigint: Int64(rows))
    }
    while try await writeBulk([PostgresStep(statement, parameters)]).first?.affectedRows == rows {}
  }
}

extension PostgresRow {
  fileprivate mutating func notificationJob() throws(StoreError) -> NotificationJob {
    let (id, attempt, expires) = (try bigint(), Int(try integer()), try timestamp())
    let (recipient, key) = (try recipientNumber(), try recipientKey())
    let (number, sent, text) = (try bigint(), try timestamp(), NotificationText(try opaque()))
    let notification = DeviceNotification(
      text: text, waitsWhileIdle: try boolean(), collapseKey: optionalOpaque(), timeToLive: try optionalBigint(),
      packageName: optionalText())
    return NotificationJob(
      id: id, attempt: attempt, expires: expires, recipient: recipient, key: key, number: number, sent: sent,
      notification: notification)
  }
}
