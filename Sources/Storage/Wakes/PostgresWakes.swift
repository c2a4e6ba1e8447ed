// Devices that are to be woken, a row each. Whatever changes several rows locks them in the order of their key, so that no
// two processes wait for each other; who claims passes over what is locked.

package import RelayCore

extension PostgresStorage {
  package func askToWake(_ asks: [WakeAsk], afterForgetting connected: [WakeRelease], _ terms: WakeTerms)
    async throws(StoreError) -> Int
  {
    // Two transactions: one alone would lock rows in the order of their key twice.
    if !connected.isEmpty { _ = try await write([Self.forgetWakesStep(connected)]) }
    guard !asks.isEmpty else { return 0 }
    return try await write([Self.askStep(asks, terms)]).last?.affectedRows ?? 0
  }

  private static func forgetWakesStep(_ releases: [WakeRelease]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "forget_wakes",
        """
        DELETE FROM wakes AS w USING (
          SELECT t.account, t.device
          FROM wakes AS t JOIN unnest($1::bigint[], $2::integer[], $3::bigint[]) AS i (account, device, age)
            ON t.account = i.account AND t.device = i.device
          WHERE t.newest <= floor(extract(epoch FROM now()) * 1000)::bigint - i.age
          ORDER BY t.account, t.device FOR UPDATE OF t
        ) AS l
        WHERE w.account = l.account AND w.device = l.device
        """),
      PostgresParameters {
        $0.add(bigints: releases.lazy.map(\.device.account.column))
        $0.add(integers: releases.lazy.map(\.device.device.value))
        $0.add(bigints: releases.lazy.map(\.age.wakeMillis))
      })
  }

  /// What is claimed keeps its time, and is due again once it is settled; what rests, or was put off, is not sent before
  /// its time; all else when the first who asked for it wanted it.
  private static func askStep(_ asks: [WakeAsk], _ terms: WakeTerms) -> PostgresStep {
    PostgresStep(
      .prepared(
        "ask_to_wake",
        """
        INSERT INTO wakes AS w (account, device, provider, version, rests, requested, newest, due, not_before, expires,
          attempts, follows_call, test)
        SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, f.now + f.delay, 0, f.now + $4::bigint, 0, false,
          false
        FROM (
          SELECT d.account, d.device, i.delay, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
            CASE WHEN d.gcm_id IS NOT NULL THEN 1 WHEN d.apn_id IS NOT NULL THEN 2 WHEN d.web_push IS NOT NULL THEN 3
            END::smallint AS provider
          FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS i (account, device, delay)
          JOIN devices AS d ON d.account = i.account AND d.device = i.device
        ) AS f
        WHERE f.provider = ANY ($5::smallint[])
        ORDER BY f.account, f.device
        ON CONFLICT (account, device) DO UPDATE
        SET version = w.version + 1, provider = excluded.provider, expires = excluded.expires, rests = false,
          newest = excluded.newest, requested = CASE WHEN w.rests THEN excluded.requested ELSE w.requested END,
          due = CASE WHEN w.claim IS NULL THEN greatest(w.not_before, least(w.due, excluded.due)) ELSE w.due END
        """),
      PostgresParameters {
        $0.add(bigints: asks.lazy.map(\.device.account.column))
        $0.add(integers: asks.lazy.map(\.device.device.value))
        $0.add(bigints: asks.lazy.map(\.delay.wakeMillis))
        $0.add(bigint: terms.lifetime.wakeMillis)
        $0.add(smallints: terms.providers.lazy.map(\.rawValue))
      })
  }

  package func askToWakeForTest(
    _ device: DeviceAddress, isForced: Bool, _ terms: WakeTerms
  ) async throws(StoreError) -> Bool {
    let result = try await write(
      .prepared(
        "ask_to_wake_for_test",
        """
        INSERT INTO wakes AS w (account, device, provider, version, rests, requested, newest, due, not_before, expires,
          attempts, follows_call, test, forced)
        SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, f.now, 0, f.now + $3::bigint, 0, false, true,
          $5::boolean
        FROM (
          SELECT account, device, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
            CASE WHEN gcm_id IS NOT NULL THEN 1 WHEN apn_id IS NOT NULL THEN 2 WHEN web_push IS NOT NULL THEN 3
            END::smallint AS provider
          FROM devices WHERE account = $1::bigint AND device = $2::integer
        ) AS f
        WHERE f.provider = ANY ($4::smallint[])
        ON CONFLICT (account, device) DO UPDATE
        SET version = w.version + 1, provider = excluded.provider, rests = false,
          expires = CASE WHEN w.rests THEN excluded.expires ELSE greatest(w.expires, excluded.expires) END,
          newest = excluded.newest, requested = excluded.requested, not_before = 0, attempts = 0, follows_call = false,
          test = true, forced = excluded.forced,
          due = CASE WHEN w.claim IS NULL THEN excluded.due ELSE w.due END
        """),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
        $0.add(bigint: terms.testLifetime.wakeMillis)
        $0.add(smallints: terms.providers.lazy.map(\.rawValue))
        $0.add(boolean: isForced)
      })
    return result.affectedRows == 1
  }

  package func claimWakes(of provider: WakeProvider, claim: Int64, limit: Int, for duration: Duration)
    async throws(StoreError) -> [WakeJob]
  {
    let result = try await write(
      .prepared(
        "claim_wakes",
        """
        WITH picked AS MATERIALIZED (
          SELECT account, device FROM wakes
          WHERE provider = $1::smallint AND NOT rests AND due <= floor(extract(epoch FROM now()) * 1000)::bigint
          ORDER BY due LIMIT $3::bigint FOR UPDATE SKIP LOCKED
        )
        UPDATE wakes AS w
        SET claim = $2::bigint, due = floor(extract(epoch FROM now()) * 1000)::bigint + $4::bigint,
          attempts = w.attempts + 1,
          covers = (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_sequence)
        FROM picked AS p WHERE w.account = p.account AND w.device = p.device
        RETURNING w.account, w.device, w.version, w.requested, floor(extract(epoch FROM now()) * 1000)::bigint, w.expires,
          w.attempts, w.follows_call, w.test, w.forced
        """),
      PostgresParameters {
        $0.add(smallint: provider.rawValue)
        $0.add(bigint: claim)
        $0.add(bigint: Int64(limit))
        $0.add(bigint: duration.wakeMillis)
      })
    var jobs: [WakeJob] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      let device = DeviceAddress(try row.account(), try row.device())
      jobs.append(
        WakeJob(
          device: device, provider: provider, claim: claim, version: try row.bigint(), requested: try row.timestamp(),
          claimed: try row.timestamp(), expires: try row.timestamp(), attempt: Int(try row.integer()),
          followsCall: try row.boolean(), isTest: try row.boolean(), isForced: try row.boolean()))
    }
    return jobs
  }

  package func renewWakes(_ jobs: [WakeJob], for duration: Duration) async throws(StoreError) {
    guard !jobs.isEmpty else { return }
    _ = try await write(
      .prepared(
        "renew_wakes",
        """
        WITH held AS MATERIALIZED (
          SELECT w.account, w.device
          FROM wakes AS w JOIN unnest($1::bigint[], $2::integer[], $3::bigint[]) AS j (account, device, claim)
            ON w.account = j.account AND w.device = j.device AND w.claim = j.claim
          ORDER BY w.account, w.device FOR UPDATE OF w
        )
        UPDATE wakes AS w SET due = floor(extract(epoch FROM now()) * 1000)::bigint + $4::bigint
        FROM held AS h WHERE w.account = h.account AND w.device = h.device
        """),
      PostgresParameters {
        $0.add(bigints: jobs.lazy.map(\.device.account.column))
        $0.add(integers: jobs.lazy.map(\.device.device.value))
        $0.add(bigints: jobs.lazy.map(\.claim))
        $0.add(bigint: duration.wakeMillis)
      })
  }

  /// Looks at all rows: an index would be paid for by every claim.
  package func returnWakes(claim: Int64) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "return_wakes",
        """
        WITH taken AS MATERIALIZED (
          SELECT account, device FROM wakes WHERE claim = $1::bigint ORDER BY account, device FOR UPDATE
        )
        UPDATE wakes AS w
        SET claim = NULL, due = greatest(w.not_before, floor(extract(epoch FROM now()) * 1000)::bigint),
          attempts = w.attempts - 1
        FROM taken AS t WHERE w.account = t.account AND w.device = t.device
        """), PostgresParameters { $0.add(bigint: claim) })
  }

  package func waitingWake(of device: DeviceAddress) async throws(StoreError) -> WaitingWake? {
    let result = try await read(
      .prepared(
        "waiting_wake",
        """
        SELECT provider, requested, due, claim IS NOT NULL, test FROM wakes
        WHERE account = $1::bigint AND device = $2::integer AND NOT rests
        """),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
      })
    guard result.rowCount > 0 else { return nil }
    var row = result.cursor(row: 0)
    return WaitingWake(
      provider: try row.required(WakeProvider(rawValue: row.smallint())), requested: try row.timestamp(),
      due: try row.timestamp(), isClaimed: try row.boolean(), isTest: try row.boolean())
  }

  package func wakeQueue() async throws(StoreError) -> [WakeQueueUsage] {
    let result = try await readBulk(
      .prepared(
        "wake_queue",
        """
        SELECT provider, count(*), floor(extract(epoch FROM now()) * 1000)::bigint - min(requested)
        FROM (SELECT provider, requested FROM wakes WHERE NOT rests LIMIT $1::bigint) AS waiting
        GROUP BY provider ORDER BY provider
        """), PostgresParameters { $0.add(bigint: 100_000) })
    var usage: [WakeQueueUsage] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      usage.append(
        WakeQueueUsage(
          provider: try row.required(WakeProvider(rawValue: row.smallint())), count: Int(try row.bigint()),
          oldest: .milliseconds(try row.bigint())))
    }
    return usage
  }

  package func glance(at mailbox: DeviceAddress, countingTo max: Int) async throws(StoreError) -> MailboxGlance {
    let result = try await read(
      .prepared(
        "glance",
        """
        SELECT count(*), count(*) FILTER (WHERE type < $5::smallint)
        FROM (
          SELECT type FROM messages
          WHERE account = $1::bigint AND device = $2::integer AND day >= $3::date
          ORDER BY sequence LIMIT $4::bigint
        ) AS oldest
        """),
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(date: days.first(of: mailbox).day)
        $0.add(bigint: Int64(max))
        $0.add(smallint: MessageType.receipt.rawValue)
      })
    var row = result.cursor(row: 0)
    return MailboxGlance(count: Int(try row.bigint()), messages: Int(try row.bigint()))
  }
}

extension Duration {
  /// Whole milliseconds, never less than none.
  var wakeMillis: Int64 { Swift.max(0, Int64(self / .milliseconds(1))) }
}
