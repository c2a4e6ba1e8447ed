// Devices that are to be woken, as `PostgresWakes`; by this process's clock.

import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func askToWake(_ asks: [WakeAsk], afterForgetting connected: [WakeRelease], _ terms: WakeTerms)
    async throws(StoreError) -> Int
  {
    guard !asks.isEmpty || !connected.isEmpty else { return 0 }
    let now = clock.now().millis
    return try await write { db in
      for release in connected {
        try db.run(
          "DELETE FROM wakes WHERE account = ? AND device = ? AND newest <= ?",
          [release.device.account.key, release.device.device.value, now - release.age.wakeMillis])
      }
      var count = 0
      for ask in asks {
        guard let provider = try Self.provider(of: ask.device, terms, in: db) else { continue }
        try Self.ask(ask, provider, lifetime: terms.lifetime, now: now, in: db)
        count += 1
      }
      return count
    }
  }

  static func ask(_ ask: WakeAsk, _ provider: WakeProvider, lifetime: Duration, now: Int64, in db: Database) throws {
    let key: StatementArguments = [ask.device.account.key, ask.device.device.value]
    try db.run(
      """
      INSERT INTO wakes (account, device, provider, version, rests, requested, newest, due, not_before, expires, attempts,
        follows_call, test)
      VALUES (?, ?, ?, 1, 0, ?, ?, ?, 0, ?, 0, 0, 0)
      ON CONFLICT (account, device) DO UPDATE
      SET version = version + 1, provider = excluded.provider, expires = excluded.expires, rests = 0,
        newest = excluded.newest, requested = iif(rests, excluded.requested, requested),
        due = iif(claim IS NULL, max(not_before, min(due, excluded.due)), due)
      """, key + [provider.rawValue, now, now, now + ask.delay.wakeMillis, now + lifetime.wakeMillis])
  }

  /// nil for a device that is gone, or that none of the terms' providers knows.
  private static func provider(of device: DeviceAddress, _ terms: WakeTerms, in db: Database) throws -> WakeProvider? {
    let row = try db.row(
      "SELECT gcm_id IS NOT NULL, apn_id IS NOT NULL, web_push IS NOT NULL FROM devices WHERE account = ? AND id = ?",
      [device.account.key, device.device.value])
    guard let row else { return nil }
    let provider: WakeProvider? = try row.flag(0) ? .fcm : row.flag(1) ? .apns : row.flag(2) ? .webPush : nil
    return provider.flatMap { terms.providers.contains($0) ? $0 : nil }
  }

  package func askToWakeForTest(
    _ device: DeviceAddress, isForced: Bool, _ terms: WakeTerms
  ) async throws(StoreError) -> Bool {
    let now = clock.now().millis
    return try await write { db in
      guard let provider = try Self.provider(of: device, terms, in: db) else { return false }
      try db.run(
        """
        INSERT INTO wakes (account, device, provider, version, rests, requested, newest, due, not_before, expires, attempts,
          follows_call, test, forced)
        VALUES (?, ?, ?, 1, 0, ?, ?, ?, 0, ?, 0, 0, 1, ?)
        ON CONFLICT (account, device) DO UPDATE
        SET version = version + 1, provider = excluded.provider, rests = 0,
          expires = iif(rests, excluded.expires, max(expires, excluded.expires)),
          newest = excluded.newest, requested = excluded.requested, not_before = 0, attempts = 0, follows_call = 0, test = 1,
          forced = excluded.forced,
          due = iif(claim IS NULL, excluded.due, due)
        """,
        [
          device.account.key, device.device.value, provider.rawValue, now, now, now,
          now + terms.testLifetime.wakeMillis, isForced,
        ])
      return true
    }
  }

  package func claimWakes(of provider: WakeProvider, claim: Int64, limit: Int, for duration: Duration)
    async throws(StoreError) -> [WakeJob]
  {
    let now = clock.now()
    // Who finds nothing waits for no writer.
    let isAny = try await read { db in
      try db.row("SELECT 1 FROM wakes WHERE provider = ? AND NOT rests AND due <= ?", [provider.rawValue, now.millis])
        != nil
    }
    guard isAny else { return [] }
    return try await write { db in
      let rows = try db.rows(
        """
        SELECT account, device, version, requested, expires, attempts, follows_call, test, forced FROM wakes
        WHERE provider = ? AND NOT rests AND due <= ? ORDER BY due LIMIT ?
        """, [provider.rawValue, now.millis, limit])
      return try rows.map { row in
        let job = try WakeJob(
          device: DeviceAddress(row.number(0), row.device(1)), provider: provider, claim: claim,
          version: row.integer(2), requested: row.time(3), claimed: now, expires: row.time(4),
          attempt: Int(row.integer(5)) + 1, followsCall: row.flag(6), isTest: row.flag(7),
          isForced: row.flag(8))
        try db.run(
          """
          UPDATE wakes SET claim = ?, due = ?, attempts = ?,
            covers = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0)
          WHERE account = ? AND device = ?
          """,
          [
            claim, now.millis + duration.wakeMillis, job.attempt, job.device.account.key, job.device.device.value,
          ])
        return job
      }
    }
  }

  package func renewWakes(_ jobs: [WakeJob], for duration: Duration) async throws(StoreError) {
    let now = clock.now()
    try await write { db in
      for job in jobs {
        try db.run(
          "UPDATE wakes SET due = ? WHERE account = ? AND device = ? AND claim = ?",
          [now.millis + duration.wakeMillis, job.device.account.key, job.device.device.value, job.claim])
      }
    }
  }

  package func returnWakes(claim: Int64) async throws(StoreError) {
    let now = clock.now()
    try await write { db in
      try db.run(
        "UPDATE wakes SET claim = NULL, due = max(not_before, ?), attempts = attempts - 1 WHERE claim = ?",
        [now.millis, claim])
    }
  }

  package func waitingWake(of device: DeviceAddress) async throws(StoreError) -> WaitingWake? {
    try await read { db in
      let row = try db.row(
        """
        SELECT provider, requested, due, claim IS NOT NULL, test FROM wakes
        WHERE account = ? AND device = ? AND NOT rests
        """, [device.account.key, device.device.value])
      guard let row else { return nil }
      return try WaitingWake(
        provider: Fields.valid(WakeProvider(rawValue: Int16(truncatingIfNeeded: row.integer(0)))),
        requested: row.time(1), due: row.time(2), isClaimed: row.flag(3), isTest: row.flag(4))
    }
  }

  package func wakeQueue() async throws(StoreError) -> [WakeQueueUsage] {
    let now = clock.now().millis
    return try await read { db in
      try db.rows(
        """
        SELECT provider, count(*), min(requested)
        FROM (SELECT provider, requested FROM wakes WHERE NOT rests LIMIT 100000) GROUP BY provider ORDER BY provider
        """
      ).map { row in
        try WakeQueueUsage(
          provider: Fields.valid(WakeProvider(rawValue: Int16(truncatingIfNeeded: row.integer(0)))),
          count: Int(row.integer(1)), oldest: .milliseconds(now - row.integer(2)))
      }
    }
  }

  package func glance(at mailbox: DeviceAddress, countingTo max: Int) async throws(StoreError) -> MailboxGlance {
    try await read { db in
      let row = try Fields.valid(
        db.row(
          """
          SELECT count(*), coalesce(sum(type < ?), 0)
          FROM (SELECT type FROM messages WHERE account = ? AND device = ? ORDER BY sequence LIMIT ?)
          """,
          [MessageType.receipt.rawValue, mailbox.account.key, mailbox.device.value, max]))
      return try MailboxGlance(count: Int(row.integer(0)), messages: Int(row.integer(1)))
    }
  }
}
