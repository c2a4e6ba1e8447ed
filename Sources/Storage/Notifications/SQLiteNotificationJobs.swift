import GRDB
package import RelayCore

extension SQLiteStorage {
  package func claimPushes(
    of service: NotificationService, limit: Int, for life: Duration, now: Timestamp
  ) async throws(StoreError) -> [NotificationJob] {
    // Frequent looks find nothing as a rule, so they do not hold the write lock.
    let isDue = try await read { db in
      try db.row(
        """
        SELECT 1 FROM notification_jobs
        WHERE service = \(service.rawValue) AND due <= \(now) AND claimed <= \(now) LIMIT 1
        """
      ) != nil
    }
    guard isDue else { return [] }
    return try await write { db in
      let ids = try db.rows(
        """
        SELECT id FROM notification_jobs
        WHERE service = \(service.rawValue) AND due <= \(now) AND claimed <= \(now) ORDER BY due, id LIMIT \(limit)
        """
      ).map { try $0.integer(0) }
      var jobs: [NotificationJob] = []
      for id in ids.sorted() {
        try db.run(
          "UPDATE notification_jobs SET claimed = \(now.adding(life)), attempts = attempts + 1 WHERE id = \(id)")
        if let row = try db.row(Self.jobQuery(id)) {
          jobs.append(try NotificationJob(row: row))
        } else {
          try db.run("DELETE FROM notification_jobs WHERE id = \(id)")
        }
      }
      return jobs
    }
  }

  private static func jobQuery(_ id: Int64) -> SQL {
    """
    SELECT j.id, j.attempts, j.expires, r.number, r.provider, r.key, n.number, n.sent, n.text, n.waits_while_idle,
      n.collapse_key, n.time_to_live, n.package_name
    FROM notification_jobs AS j
    JOIN notification_recipients AS r ON r.number = j.recipient AND r.active
    JOIN notifications AS n ON n.number = j.number
    WHERE j.id = \(id)
    """
  }

  package func settlePushes(_ settlements: [PushSettlement]) async throws(StoreError) {
    guard !settlements.isEmpty else { return }
    try await write { db in
      for settlement in settlements {
        let job = settlement.job
        switch settlement.outcome {
        case .finished: try db.run("DELETE FROM notification_jobs WHERE id = \(job.id)")
        case .putOff(let time, let isCounted):
          try db.run(
            """
            UPDATE notification_jobs SET due = \(time), claimed = 0, attempts = attempts - \(isCounted ? 0 : 1)
            WHERE id = \(job.id) AND attempts = \(job.attempt)
            """)
        }
      }
    }
  }

  package func keyIsDead(
    _ job: NotificationJob, since: Timestamp?, now: Timestamp
  ) async throws(StoreError) -> Bool {
    try await write { db in
      let row = try db.row(
        "SELECT account, provider, key, active, changed FROM notification_recipients WHERE number = \(job.recipient)")
      guard let row, let name = row.optionalText(0), try RecipientKey(row: row, at: 1) == job.key, try row.flag(3)
      else {
        // Another key may have come meanwhile: then this push is for it.
        return false
      }
      guard try since.map({ try row.time(4) <= $0 }) ?? true else {
        try db.run("DELETE FROM notification_jobs WHERE id = \(job.id)")
        return false
      }
      try db.deactivate(job.recipient, now: now)
      try db.add(
        .unsubscribedAll, of: job.recipient, try Fields.valid(NotificationUser(name)), isOurs: true,
        subject: NotificationEvent.ownSubject(job.recipient), now: now)
      return true
    }
  }

  package func notificationQueues() async throws(StoreError) -> [NotificationQueue] {
    try await read { db in
      try NotificationService.allCases.map { service in
        let row = try db.row(
          """
          SELECT (SELECT count(*) FROM (
              SELECT 1 FROM notification_jobs WHERE service = \(service.rawValue)
              LIMIT \(NotificationLimits.countedMax))),
            (SELECT min(queued) FROM notification_jobs WHERE service = \(service.rawValue))
          """)
        let counted = try Fields.valid(row)
        return try NotificationQueue(
          service: service, waiting: Int(counted.integer(0)), oldest: counted.optionalTime(1))
      }
    }
  }

  package func forgetNotifications(
    before time: Timestamp, pushesEndedBy end: Timestamp
  ) async throws(StoreError) {
    let rows = Self.chunkRows
    try await forget(
      """
      DELETE FROM notification_jobs
      WHERE id IN (SELECT id FROM notification_jobs WHERE expires < \(end) AND due < \(end) LIMIT \(rows))
      """, upTo: rows)
    // A notification goes with up to 10,000 rows.
    let few = 20
    try await forget(
      """
      DELETE FROM notifications WHERE number IN (
        SELECT number FROM notifications AS n WHERE sent < \(time)
          AND NOT EXISTS (SELECT 1 FROM notification_jobs AS j WHERE j.number = n.number)
        LIMIT \(few)
      )
      """, upTo: few)
    try await forget(
      """
      DELETE FROM notification_events
      WHERE number IN (SELECT number FROM notification_events WHERE created < \(time) LIMIT \(rows))
      """, upTo: rows)
  }
}

extension NotificationJob {
  fileprivate init(row: Fields) throws(StoreError) {
    let notification = DeviceNotification(
      text: NotificationText(try row.opaque(8)), waitsWhileIdle: try row.flag(9), collapseKey: row.optionalOpaque(10),
      timeToLive: row.optionalInteger(11), packageName: row.optionalText(12))
    self.init(
      id: try row.integer(0), attempt: Int(try row.integer(1)), expires: try row.time(2),
      recipient: try Fields.valid(RecipientNumber(row.integer(3))), key: try RecipientKey(row: row, at: 4),
      number: try row.integer(6), sent: try row.time(7), notification: notification)
  }
}
