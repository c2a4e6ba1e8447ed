// Devices that are to be woken, as `PostgresWakes`; by this process's clock.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func askToWake(_ asks: [WakeAsk], afterForgetting connected: [WakeRelease], _ terms: WakeTerms)
    async throws(StoreError) -> Int
  {
    guard !asks.isEmpty || !connected.isEmpty else { return 0 }
    let now = clock.now().millis
    return try await write { db in
      for release in connected {
        try db.run(
          """
          DELETE FROM wakes
          WHERE account = \(release.device.account) AND device = \(release.device.device)
            AND newest <= \(now - release.age.wakeMillis)
          """)
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
    try db.run(
      """
      INSERT INTO wakes (account, device, provider, version, rests, requested, newest, due, not_before, expires,
        attempts, follows_call, test)
      VALUES (\(ask.device.account), \(ask.device.device), \(provider.rawValue), 1, 0, \(now), \(now),
        \(now + ask.delay.wakeMillis), 0, \(now + lifetime.wakeMillis), 0, 0, 0)
      ON CONFLICT (account, device) DO UPDATE
      SET version = version + 1, provider = excluded.provider, expires = excluded.expires, rests = 0,
        newest = excluded.newest, requested = iif(rests, excluded.requested, requested),
        due = iif(claim IS NULL, max(not_before, min(due, excluded.due)), due)
      """)
  }

  /// nil for a device that is gone, or that none of the terms' providers knows.
  private static func provider(of device: DeviceAddress, _ terms: WakeTerms, in db: Database) throws -> WakeProvider? {
    let row = try db.row(
      "SELECT \(WakeProvider.self) FROM devices WHERE account = \(device.account) AND device = \(device.device)")
    return try row.flatMap { try terms.provider($0, 0) }
  }

  package func askToWakeForTest(
    _ device: DeviceAddress, isForced: Bool, _ terms: WakeTerms
  ) async throws(StoreError) -> Bool {
    let now = clock.now().millis
    return try await write { db in
      guard let provider = try Self.provider(of: device, terms, in: db) else { return false }
      try db.run(
        """
        INSERT INTO wakes (account, device, provider, version, rests, requested, newest, due, not_before, expires,
          attempts, follows_call, test, forced)
        VALUES (\(device.account), \(device.device), \(provider.rawValue), 1, 0, \(now), \(now), \(now), 0,
          \(now + terms.testLifetime.wakeMillis), 0, 0, 1, \(isForced))
        ON CONFLICT (account, device) DO UPDATE
        SET version = version + 1, provider = excluded.provider, rests = 0,
          expires = iif(rests, excluded.expires, max(expires, excluded.expires)),
          newest = excluded.newest, requested = excluded.requested, not_before = 0, attempts = 0, follows_call = 0,
          test = 1,
          forced = excluded.forced,
          due = iif(claim IS NULL, excluded.due, due)
        """)
      return true
    }
  }

  package func claimWakes(of provider: WakeProvider, claim: Int64, limit: Int, for duration: Duration)
    async throws(StoreError) -> [WakeJob]
  {
    let now = clock.now()
    // A worker that finds nothing waits for no writer.
    let isAny = try await read { db in
      try db.row("SELECT 1 FROM wakes WHERE provider = \(provider.rawValue) AND NOT rests AND due <= \(now)")
        != nil
    }
    guard isAny else { return [] }
    return try await write { db in
      let rows = try db.rows(
        """
        SELECT account, device, version, requested, expires, attempts, follows_call, test, forced FROM wakes
        WHERE provider = \(provider.rawValue) AND NOT rests AND due <= \(now) ORDER BY due LIMIT \(limit)
        """)
      return try rows.map { row in
        let job = try WakeJob(row: row, provider: provider, claim: claim, at: now)
        try db.run(
          """
          UPDATE wakes SET claim = \(claim), due = \(now.millis + duration.wakeMillis), attempts = \(job.attempt),
            covers = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0)
          WHERE account = \(job.device.account) AND device = \(job.device.device)
          """)
        return job
      }
    }
  }

  package func renewWakes(_ jobs: [WakeJob], for duration: Duration) async throws(StoreError) {
    let now = clock.now()
    try await write { db in
      for job in jobs {
        try db.run(
          """
          UPDATE wakes SET due = \(now.millis + duration.wakeMillis)
          WHERE account = \(job.device.account) AND device = \(job.device.device) AND claim = \(job.claim)
          """)
      }
    }
  }

  package func returnWakes(claim: Int64) async throws(StoreError) {
    let now = clock.now()
    try await write { db in
      try db.run(
        """
        UPDATE wakes SET claim = NULL, due = max(not_before, \(now)), attempts = attempts - 1 WHERE claim = \(claim)
        """)
    }
  }

  package func waitingWake(of device: DeviceAddress) async throws(StoreError) -> WaitingWake? {
    try await read { db in
      let row = try db.row(
        """
        SELECT provider, requested, due, claim IS NOT NULL, test FROM wakes
        WHERE account = \(device.account) AND device = \(device.device) AND NOT rests
        """)
      return try row.map(WaitingWake.init(row:))
    }
  }

  package func wakeQueue() async throws(StoreError) -> [WakeQueueUsage] {
    let now = clock.now().millis
    return try await read { db in
      try db.rows(
        """
        SELECT provider, count(*), min(requested) FROM (SELECT provider, requested FROM wakes
        WHERE NOT rests LIMIT 100000) GROUP BY provider ORDER BY provider
        """
      ).map { try WakeQueueUsage(row: $0, at: now) }
    }
  }

  package func glance(at mailbox: DeviceAddress, countingTo max: Int) async throws(StoreError) -> MailboxGlance {
    try await read { db in
      let row = try Fields.valid(
        db.row(
          """
          SELECT count(*), coalesce(sum(type < \(MessageType.receipt.rawValue)), 0)
          FROM (
            SELECT type FROM messages WHERE account = \(mailbox.account) AND device = \(mailbox.device)
            ORDER BY sequence LIMIT \(max))
          """))
      return try MailboxGlance(count: Int(row.integer(0)), messages: Int(row.integer(1)))
    }
  }
}

extension WakeTerms {
  /// - Returns: nil for a device without a provider, and for one whose provider is none of the terms'.
  func provider(_ row: Fields, _ index: Int) throws(StoreError) -> WakeProvider? {
    guard let value = row.optionalInteger(index) else { return nil }
    let provider = try Fields.valid(WakeProvider(rawValue: Int16(truncatingIfNeeded: value)))
    return providers.contains(provider) ? provider : nil
  }
}

extension WakeJob {
  /// - Parameter now: when it is claimed: one more attempt.
  fileprivate init(row: Fields, provider: WakeProvider, claim: Int64, at now: Timestamp) throws(StoreError) {
    self.init(
      device: DeviceAddress(try row.number(0), try row.device(1)), provider: provider, claim: claim,
      version: try row.integer(2), requested: try row.time(3), claimed: now, expires: try row.time(4),
      attempt: Int(try row.integer(5)) + 1, followsCall: try row.flag(6), isTest: try row.flag(7),
      isForced: try row.flag(8))
  }
}

extension WaitingWake {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      provider: try Fields.valid(WakeProvider(rawValue: Int16(truncatingIfNeeded: row.integer(0)))),
      requested: try row.time(1), due: try row.time(2), isClaimed: try row.flag(3), isTest: try row.flag(4))
  }
}

extension WakeQueueUsage {
  /// - Parameter now: in milliseconds since 1970.
  fileprivate init(row: Fields, at now: Int64) throws(StoreError) {
    self.init(
      provider: try Fields.valid(WakeProvider(rawValue: Int16(truncatingIfNeeded: row.integer(0)))),
      count: Int(try row.integer(1)), oldest: .milliseconds(now - (try row.integer(2))))
  }
}
