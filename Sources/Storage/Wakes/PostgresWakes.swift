// Devices that are to be woken, a row each. A statement that changes several rows locks them in the order of their
// key, so that no two processes wait for each other. A claim passes over locked rows.

package import RelayCore

extension PostgresStorage {
  package func askToWake(_ asks: [WakeAsk], afterForgetting connected: [WakeRelease], _ terms: WakeTerms)
    async throws(StoreError) -> Int
  {
    // Two transactions: one alone would lock rows in the order of their key twice.
    if !connected.isEmpty { _ = try await write([Self.forgetWakesStep(connected, await layout)]) }
    guard !asks.isEmpty else { return 0 }
    return try await write([Self.askStep(asks, terms)]).last?.affectedRows ?? 0
  }

  private static func forgetWakesStep(_ releases: [WakeRelease], _ layout: PostgresLayout) -> PostgresStep {
    let accounts = PostgresParameter(each: releases.lazy.map(\.device.account))
    let devices = PostgresParameter(each: releases.lazy.map(\.device.device))
    let ages = PostgresParameter(each: releases.lazy.map(\.age.wakeMillis))
    guard layout == .whole else {
      return PostgresStep(
        "forget_wakes",
        """
        DELETE FROM wakes AS w USING unnest(\(accounts), \(devices), \(ages)) AS i (account, device, age)
        WHERE w.account = i.account AND w.device = i.device
          AND w.newest <= floor(extract(epoch FROM now()) * 1000)::bigint - i.age\(routing: layout, "w", to: accounts)
        """)
    }
    return PostgresStep(
      "forget_wakes",
      """
      DELETE FROM wakes AS w USING (
        SELECT t.account, t.device
        FROM wakes AS t JOIN unnest(\(accounts), \(devices), \(ages))
          AS i (account, device, age) ON t.account = i.account AND t.device = i.device
        WHERE t.newest <= floor(extract(epoch FROM now()) * 1000)::bigint - i.age
        ORDER BY t.account, t.device FOR UPDATE OF t
      ) AS l
      WHERE w.account = l.account AND w.device = l.device
      """)
  }

  /// A claimed job keeps its time, and is due again once it is settled. One that rests, or was put off, is not sent
  /// before its time. Every other job is due when the first who asked for it wanted it.
  private static func askStep(_ asks: [WakeAsk], _ terms: WakeTerms) -> PostgresStep {
    PostgresStep(
      "ask_to_wake",
      """
      INSERT INTO wakes AS w (account, device, provider, version, rests, requested, newest, due, not_before, expires,
        attempts, follows_call, test)
      SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, f.now + f.delay, 0,
        f.now + \(terms.lifetime.wakeMillis), 0, false, false
      FROM (
        SELECT d.account, d.device, i.delay, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
          \(WakeProvider.self) AS provider
        FROM unnest(
            \(each: asks.lazy.map(\.device.account)), \(each: asks.lazy.map(\.device.device)),
            \(each: asks.lazy.map(\.delay.wakeMillis)))
          AS i (account, device, delay)
        JOIN devices AS d ON d.account = i.account AND d.device = i.device
      ) AS f
      WHERE f.provider = ANY (\(each: terms.providers.lazy.map(\.rawValue)))
      ORDER BY f.account, f.device
      ON CONFLICT (account, device) DO UPDATE
      SET version = w.version + 1, provider = excluded.provider, expires = excluded.expires, rests = false,
        newest = excluded.newest, requested = CASE WHEN w.rests THEN excluded.requested ELSE w.requested END,
        due = CASE WHEN w.claim IS NULL THEN greatest(w.not_before, least(w.due, excluded.due)) ELSE w.due END
      """)
  }

  package func askToWakeForTest(
    _ device: DeviceAddress, isForced: Bool, _ terms: WakeTerms
  ) async throws(StoreError) -> Bool {
    let result = try await write(
      "ask_to_wake_for_test",
      """
      INSERT INTO wakes AS w (account, device, provider, version, rests, requested, newest, due, not_before, expires,
        attempts, follows_call, test, forced)
      SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, f.now, 0,
        f.now + \(terms.testLifetime.wakeMillis), 0, false, true, \(isForced)
      FROM (
        SELECT account, device, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
          \(WakeProvider.self) AS provider
        FROM devices WHERE account = \(device.account) AND device = \(device.device)
      ) AS f
      WHERE f.provider = ANY (\(each: terms.providers.lazy.map(\.rawValue)))
      ON CONFLICT (account, device) DO UPDATE
      SET version = w.version + 1, provider = excluded.provider, rests = false,
        expires = CASE WHEN w.rests THEN excluded.expires ELSE greatest(w.expires, excluded.expires) END,
        newest = excluded.newest, requested = excluded.requested, not_before = 0, attempts = 0, follows_call = false,
        test = true, forced = excluded.forced,
        due = CASE WHEN w.claim IS NULL THEN excluded.due ELSE w.due END
      """)
    return result.affectedRows == 1
  }

  package func claimWakes(of provider: WakeProvider, claim: Int64, limit: Int, for duration: Duration)
    async throws(StoreError) -> [WakeJob]
  {
    if await layout == .distributed {
      return try await claimDistributedWakes(of: provider, claim: claim, limit: limit, for: duration)
    }
    let result = try await write(
      "claim_wakes",
      """
      WITH picked AS MATERIALIZED (
        SELECT account, device FROM wakes
        WHERE provider = \(provider.rawValue) AND NOT rests AND due <= floor(extract(epoch FROM now()) * 1000)::bigint
        ORDER BY due LIMIT \(Int64(limit)) FOR UPDATE SKIP LOCKED
      )
      UPDATE wakes AS w
      SET claim = \(claim), due = floor(extract(epoch FROM now()) * 1000)::bigint + \(duration.wakeMillis),
        attempts = w.attempts + 1,
        covers = (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_sequence)
      FROM picked AS p WHERE w.account = p.account AND w.device = p.device
      RETURNING w.account, w.device, w.version, w.requested, floor(extract(epoch FROM now()) * 1000)::bigint, w.expires,
        w.attempts, w.follows_call, w.test, w.forced
      """)
    return try result.all { (row) throws(StoreError) in
      try WakeJob(row: &row, provider: provider, claim: claim)
    }
  }

  package func renewWakes(_ jobs: [WakeJob], for duration: Duration) async throws(StoreError) {
    guard !jobs.isEmpty else { return }
    _ = try await write([Self.renewStep(jobs, for: duration, await layout)])
  }

  private static func renewStep(_ jobs: [WakeJob], for duration: Duration, _ layout: PostgresLayout) -> PostgresStep {
    let accounts = PostgresParameter(each: jobs.lazy.map(\.device.account))
    let devices = PostgresParameter(each: jobs.lazy.map(\.device.device))
    let claims = PostgresParameter(each: jobs.lazy.map(\.claim))
    let millis = PostgresParameter(duration.wakeMillis)
    guard layout == .whole else {
      return PostgresStep(
        "renew_wakes",
        """
        UPDATE wakes AS w SET due = floor(extract(epoch FROM now()) * 1000)::bigint + \(millis)
        FROM unnest(\(accounts), \(devices), \(claims)) AS j (account, device, claim)
        WHERE w.account = j.account AND w.device = j.device AND w.claim = j.claim\(routing: layout, "w", to: accounts)
        """)
    }
    return PostgresStep(
      "renew_wakes",
      """
      WITH held AS MATERIALIZED (
        SELECT w.account, w.device
        FROM wakes AS w JOIN unnest(\(accounts), \(devices), \(claims))
          AS j (account, device, claim) ON w.account = j.account AND w.device = j.device AND w.claim = j.claim
        ORDER BY w.account, w.device FOR UPDATE OF w
      )
      UPDATE wakes AS w SET due = floor(extract(epoch FROM now()) * 1000)::bigint + \(millis)
      FROM held AS h WHERE w.account = h.account AND w.device = h.device
      """)
  }

  /// Looks at all rows: an index would be paid for by every claim.
  package func returnWakes(claim: Int64) async throws(StoreError) {
    guard await layout == .whole else {
      _ = try await write(
        "return_wakes",
        """
        UPDATE wakes
        SET claim = NULL, due = greatest(not_before, floor(extract(epoch FROM now()) * 1000)::bigint),
          attempts = attempts - 1
        WHERE claim = \(claim)
        """)
      return
    }
    _ = try await write(
      "return_wakes",
      """
      WITH taken AS MATERIALIZED (
        SELECT account, device FROM wakes WHERE claim = \(claim) ORDER BY account, device FOR UPDATE
      )
      UPDATE wakes AS w
      SET claim = NULL, due = greatest(w.not_before, floor(extract(epoch FROM now()) * 1000)::bigint),
        attempts = w.attempts - 1
      FROM taken AS t WHERE w.account = t.account AND w.device = t.device
      """)
  }

  package func waitingWake(of device: DeviceAddress) async throws(StoreError) -> WaitingWake? {
    let result = try await read(
      "waiting_wake",
      """
      SELECT provider, requested, due, claim IS NOT NULL, test FROM wakes
      WHERE account = \(device.account) AND device = \(device.device) AND NOT rests
      """)
    return try result.first(WaitingWake.init(row:))
  }

  package func wakeQueue() async throws(StoreError) -> [WakeQueueUsage] {
    let result = try await readBulk(
      "wake_queue",
      """
      SELECT provider, count(*), floor(extract(epoch FROM now()) * 1000)::bigint - min(requested)
      FROM (SELECT provider, requested FROM wakes WHERE NOT rests LIMIT 100000) AS waiting
      GROUP BY provider ORDER BY provider
      """)
    return try result.all(WakeQueueUsage.init(row:))
  }

  package func glance(at mailbox: DeviceAddress, countingTo max: Int) async throws(StoreError) -> MailboxGlance {
    let result = try await read(
      "glance",
      """
      SELECT count(*), count(*) FILTER (WHERE type < \(MessageType.receipt.rawValue))
      FROM (
        SELECT type FROM messages
        WHERE account = \(mailbox.account) AND device = \(mailbox.device)
          AND day >= \(PostgresDate(days.first(of: mailbox).day))
        ORDER BY sequence LIMIT \(Int64(max))
      ) AS oldest
      """)
    var row = result.cursor(row: 0)
    return MailboxGlance(count: Int(try row.bigint()), messages: Int(try row.bigint()))
  }
}

// MARK: - A distributed store

extension PostgresStorage {
  /// Processes take turns, provider by provider: rows of several shards cannot be locked and passed over. A claim that
  /// was waited for has moved the time of the rows that it took.
  private func claimDistributedWakes(of provider: WakeProvider, claim: Int64, limit: Int, for duration: Duration)
    async throws(StoreError) -> [WakeJob]
  {
    let key = PostgresParameter(Int32(provider.rawValue))
    let provided = PostgresParameter(provider.rawValue)
    let results = try await write([
      PostgresStep("claim_turn", "SELECT 1 FROM pg_advisory_xact_lock(\(Self.claimTurns), \(key))"),
      PostgresStep(
        "claim_wakes",
        """
        WITH n AS MATERIALIZED (
          SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS now,
            CASE WHEN is_called THEN last_value ELSE 0 END AS last
          FROM message_sequence
        ),
        picked AS MATERIALIZED (
          SELECT w.account, w.device, n.now, n.last
          FROM wakes AS w CROSS JOIN n
          WHERE w.provider = \(provided) AND NOT w.rests AND w.due <= n.now
          ORDER BY w.due LIMIT \(Int64(limit))
        )
        UPDATE wakes AS w
        SET claim = \(claim), due = p.now + \(duration.wakeMillis), attempts = w.attempts + 1, covers = p.last
        FROM picked AS p
        WHERE w.account = p.account AND w.device = p.device
          AND w.provider = \(provided) AND NOT w.rests AND w.due <= p.now
        RETURNING w.account, w.device, w.version, w.requested, p.now, w.expires, w.attempts, w.follows_call, w.test,
          w.forced
        """),
    ])
    return try results[1].all { (row) throws(StoreError) in
      try WakeJob(row: &row, provider: provider, claim: claim)
    }
  }

  /// Any number: the first half of the keys of these turns.
  private static let claimTurns: Int32 = 0x57616B65
}

extension WakeJob {
  fileprivate init(row: inout PostgresRow, provider: WakeProvider, claim: Int64) throws(StoreError) {
    let device = DeviceAddress(try row.account(), try row.device())
    self.init(
      device: device, provider: provider, claim: claim, version: try row.bigint(), requested: try row.timestamp(),
      claimed: try row.timestamp(), expires: try row.timestamp(), attempt: Int(try row.integer()),
      followsCall: try row.boolean(), isTest: try row.boolean(), isForced: try row.boolean())
  }
}

extension WaitingWake {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      provider: try row.required(WakeProvider(rawValue: row.smallint())), requested: try row.timestamp(),
      due: try row.timestamp(), isClaimed: try row.boolean(), isTest: try row.boolean())
  }
}

extension WakeQueueUsage {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      provider: try row.required(WakeProvider(rawValue: row.smallint())), count: Int(try row.bigint()),
      oldest: .milliseconds(try row.bigint()))
  }
}

extension Duration {
  /// Whole milliseconds, never less than none.
  var wakeMillis: Int64 { Swift.max(0, Int64(self / .milliseconds(1))) }
}
