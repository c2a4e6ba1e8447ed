package import RelayCore

extension PostgresStorage {
  package func claimPushes(
    of service: NotificationService, limit: Int, for life: Duration, now: Timestamp
  ) async throws(StoreError) -> [NotificationJob] {
    let result = try await write(
      .prepared(
        "claim_pushes",
        """
        WITH clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now),
          due AS MATERIALIZED (
            SELECT id FROM notification_jobs
            WHERE service = $1::text AND due <= $2::bigint AND claimed <= (SELECT now FROM clock)
            ORDER BY due, id LIMIT $3::bigint FOR UPDATE SKIP LOCKED
          ),
          dropped AS (
            DELETE FROM notification_jobs AS j USING due, notification_recipients AS r
            WHERE j.id = due.id AND r.number = j.recipient AND NOT r.active
          ),
          claimed AS (
            UPDATE notification_jobs AS j SET claimed = (SELECT now FROM clock) + $4::bigint, attempts = attempts + 1
            FROM due, notification_recipients AS r WHERE j.id = due.id AND r.number = j.recipient AND r.active
            RETURNING j.id, j.attempts, j.expires, r.number AS recipient, r.provider, r.key, j.number
          )
        SELECT c.id, c.attempts, c.expires, c.recipient, c.provider, c.key, n.number, n.sent, n.text, n.waits_while_idle,
          n.collapse_key, n.time_to_live, n.package_name
        FROM claimed AS c JOIN notifications AS n ON n.number = c.number
        ORDER BY c.id
        """),
      PostgresParameters {
        $0.add(text: service.rawValue)
        $0.add(bigint: now.millis)
        $0.add(bigint: Int64(limit))
        $0.add(bigint: life.wholeMillis)
      })
    var jobs: [NotificationJob] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      jobs.append(try row.notificationJob())
    }
    return jobs
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

  // Who locks several pushes does so by their ids in order.

  private static func finishStep(_ ids: [Int64]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "finish_pushes",
        """
        DELETE FROM notification_jobs WHERE id IN (
          SELECT id FROM notification_jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
        )
        """), PostgresParameters { $0.add(bigints: ids) })
  }

  private static func putOffStep(
    _ delays: [(job: NotificationJob, due: Int64, uncounted: Int64)]
  ) -> PostgresStep {
    PostgresStep(
      .prepared(
        "put_off_pushes",
        """
        UPDATE notification_jobs AS j SET due = d.due, claimed = 0, attempts = j.attempts - d.uncounted::integer
        FROM (
          SELECT o.id, u.due, u.uncounted
          FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS u (id, attempts, due, uncounted)
          JOIN notification_jobs AS o ON o.id = u.id AND o.attempts = u.attempts
          ORDER BY o.id FOR UPDATE OF o
        ) AS d
        WHERE j.id = d.id
        """),
      PostgresParameters {
        $0.add(bigints: delays.map(\.job.id))
        $0.add(bigints: delays.map { Int64($0.job.attempt) })
        $0.add(bigints: delays.map(\.due))
        $0.add(bigints: delays.map(\.uncounted))
      })
  }

  package func keyIsDead(
    _ job: NotificationJob, since: Timestamp?, now: Timestamp
  ) async throws(StoreError) -> Bool {
    let results = try await writeNotifications([
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
      Self.handOverPushesStep(job.recipient),
      Self.dropPushesStep(job.recipient),
      // Another key may have come meanwhile: then this push is for it.
      PostgresStep(
        .prepared(
          "forget_dead_push",
          """
          DELETE FROM notification_jobs AS j USING notification_recipients AS r
          WHERE j.id = $1::bigint AND j.recipient = $4::bigint AND r.number = j.recipient AND r.provider = $2::text
            AND r.key = $3::text
          """),
        PostgresParameters {
          $0.add(bigint: job.id)
          $0.add(text: job.key.provider.rawValue)
          $0.add(text: job.key.text)
          $0.add(bigint: job.recipient.value)
        }),
    ])
    return results.first?.affectedRows == 1
  }

  package func notificationQueues() async throws(StoreError) -> [NotificationQueue] {
    let result = try await readBulk(
      .prepared(
        "notification_queues",
        """
        SELECT s.service,
          (SELECT count(*) FROM (SELECT FROM notification_jobs WHERE service = s.service LIMIT $2::bigint) AS c),
          (SELECT min(queued) FROM notification_jobs WHERE service = s.service)
        FROM unnest($1::text[]) AS s (service)
        """),
      PostgresParameters {
        $0.add(texts: NotificationService.allCases.map { Optional($0.rawValue) })
        $0.add(bigint: Int64(NotificationLimits.countedMax))
      })
    var queues: [NotificationQueue] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      let service = try row.required(NotificationService(rawValue: row.text()))
      queues.append(
        NotificationQueue(service: service, waiting: Int(try row.bigint()), oldest: try row.optionalTimestamp()))
    }
    return queues
  }

  package func forgetNotifications(
    before time: Timestamp, pushesEndedBy end: Timestamp
  ) async throws(StoreError) {
    try await forget(
      .prepared(
        "forget_pushes",
        """
        DELETE FROM notification_jobs WHERE id IN (
          SELECT id FROM notification_jobs WHERE expires < $1::bigint AND due < $1::bigint
          ORDER BY id LIMIT $2::bigint FOR UPDATE
        )
        """), before: end, rows: 1000)
    // A notification goes with up to 10,000 rows.
    try await forget(
      .prepared(
        "forget_notifications",
        """
        DELETE FROM notifications WHERE number IN (
          SELECT number FROM notifications AS n WHERE sent < $1::bigint
            AND NOT EXISTS (SELECT FROM notification_jobs AS j WHERE j.number = n.number)
          ORDER BY sent LIMIT $2::bigint
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
