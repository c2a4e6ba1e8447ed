// How jobs end, and the flight recorder.

package import RelayCore

extension PostgresStorage {
  package func settleWakes(_ settlements: [WakeSettlement]) async throws(StoreError) {
    guard !settlements.isEmpty else { return }
    let jobs = settlements.map(\.job)
    let columns = settlements.map { WakeSettlementColumns($0.disposal, of: $0.job) }
    let recorded = settlements.compactMap { settlement in
      settlement.recorded.map { Self.recordStep($0, of: settlement.job.device) }
    }
    let trims = settlements.compactMap { $0.recorded == nil ? nil : $0.job.device }
    // The rows first: what is asked for meanwhile waits, and is seen by no statement but half.
    var steps = [Self.lockWakesStep(jobs), Self.dropStep(jobs, columns), Self.releaseStep(jobs, columns)]
    steps += recorded
    if !trims.isEmpty { steps.append(Self.trimStep(Array(Set(trims)))) }
    _ = try await write(steps)
  }

  private static func lockWakesStep(_ jobs: [WakeJob]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "lock_wakes",
        """
        SELECT 1 FROM wakes WHERE (account, device) IN (SELECT * FROM unnest($1::bigint[], $2::integer[]))
        ORDER BY account, device FOR UPDATE
        """),
      PostgresParameters {
        $0.add(bigints: jobs.lazy.map(\.device.account.column))
        $0.add(integers: jobs.lazy.map(\.device.device.value))
      })
  }

  private static func dropStep(_ jobs: [WakeJob], _ columns: [WakeSettlementColumns]) -> PostgresStep {
    let dropped = zip(jobs, columns).filter { $1.drops }.map(\.0)
    return PostgresStep(
      .prepared(
        "drop_wakes",
        """
        DELETE FROM wakes AS w
        USING unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[]) AS i (account, device, claim, version)
        WHERE w.account = i.account AND w.device = i.device AND w.claim = i.claim AND w.version = i.version
        """),
      PostgresParameters {
        $0.add(bigints: dropped.lazy.map(\.device.account.column))
        $0.add(integers: dropped.lazy.map(\.device.device.value))
        $0.add(bigints: dropped.lazy.map(\.claim))
        $0.add(bigints: dropped.lazy.map(\.version))
      })
  }

  /// Of those that were to be dropped, the ones that were asked for again are still there.
  private static func releaseStep(_ jobs: [WakeJob], _ columns: [WakeSettlementColumns]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "release_wakes",
        """
        UPDATE wakes AS w
        SET claim = NULL, follows_call = i.follows_call,
          rests = i.rests AND w.version = i.version,
          attempts = CASE WHEN i.keeps_attempts THEN greatest(w.attempts - i.uncounted, 0) ELSE 0 END,
          test = w.test AND (w.version <> i.version OR i.keeps_attempts OR i.follows_call),
          not_before = CASE WHEN w.test AND w.version <> i.version THEN 0 ELSE n.now + i.hold END,
          due = n.now + CASE
            WHEN i.rests AND w.version = i.version THEN i.memory
            WHEN w.test AND w.version <> i.version THEN 0
            WHEN w.version <> i.version THEN i.hold
            ELSE i.pause
          END
        FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::boolean[], $6::boolean[], $7::boolean[],
            $8::integer[], $9::bigint[], $10::bigint[], $11::bigint[])
          AS i (account, device, claim, version, rests, follows_call, keeps_attempts, uncounted, hold, pause, memory)
        CROSS JOIN (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS now) AS n
        WHERE w.account = i.account AND w.device = i.device AND w.claim = i.claim
        """),
      PostgresParameters {
        $0.add(bigints: jobs.lazy.map(\.device.account.column))
        $0.add(integers: jobs.lazy.map(\.device.device.value))
        $0.add(bigints: jobs.lazy.map(\.claim))
        $0.add(bigints: jobs.lazy.map(\.version))
        $0.add(booleans: columns.lazy.map(\.rests))
        $0.add(booleans: columns.lazy.map(\.followsCall))
        $0.add(booleans: columns.lazy.map(\.keepsAttempts))
        $0.add(integers: columns.lazy.map(\.uncounted))
        $0.add(bigints: columns.lazy.map(\.hold))
        $0.add(bigints: columns.lazy.map(\.pause))
        $0.add(bigints: columns.lazy.map(\.memory))
      })
  }

  // MARK: The flight recorder

  /// Only of a device that is still there: who is gone leaves no trace.
  private static func recordStep(_ attempt: WakeAttempt, of device: DeviceAddress) -> PostgresStep {
    PostgresStep(
      .prepared(
        "record_wake",
        """
        INSERT INTO wake_history (account, device, asked, claimed, attempt, provider, kind, answer, status, latency,
          outcome, test)
        SELECT account, device, $3::bigint, $4::bigint, $5::integer, $6::integer::smallint, $7::text, $8::text,
          $9::integer, $10::bigint, $11::text, $12::boolean
        FROM devices WHERE account = $1::bigint AND device = $2::integer
        """),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
        $0.add(bigint: attempt.asked.millis)
        $0.add(bigint: attempt.claimed.millis)
        $0.add(integer: Int32(clamping: attempt.number))
        $0.add(integer: attempt.provider.map { Int32($0.rawValue) })
        $0.add(text: attempt.kind?.rawValue)
        $0.add(text: attempt.answer)
        $0.add(integer: attempt.status.map { Int32(clamping: $0) })
        $0.add(bigint: attempt.latency?.wakeMillis)
        $0.add(text: attempt.outcome.rawValue)
        $0.add(boolean: attempt.isTest)
      })
  }

  private static func trimStep(_ devices: [DeviceAddress]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "trim_wake_history",
        """
        DELETE FROM wake_history AS h
        USING unnest($1::bigint[], $2::integer[]) AS i (account, device)
        WHERE h.account = i.account AND h.device = i.device AND h.entry <= (
          SELECT entry FROM wake_history WHERE account = i.account AND device = i.device
          ORDER BY entry DESC OFFSET $3::bigint LIMIT 1)
        """),
      PostgresParameters {
        $0.add(bigints: devices.lazy.map(\.account.column))
        $0.add(integers: devices.lazy.map(\.device.value))
        $0.add(bigint: Int64(WakeAttempt.keptMax))
      })
  }

  package func wakeHistory(of device: DeviceAddress) async throws(StoreError) -> [WakeAttempt] {
    let result = try await read(
      .prepared(
        "wake_history",
        """
        SELECT asked, claimed, attempt, provider::integer, kind, answer, status, latency, outcome, test FROM wake_history
        WHERE account = $1::bigint AND device = $2::integer ORDER BY entry DESC LIMIT $3::bigint
        """),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
        $0.add(bigint: Int64(WakeAttempt.keptMax))
      })
    var attempts: [WakeAttempt] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      let (asked, claimed, number) = (try row.timestamp(), try row.timestamp(), Int(try row.integer()))
      let provider = try row.optionalInteger().flatMap { WakeProvider(rawValue: Int16(truncatingIfNeeded: $0)) }
      let (kind, answer) = (row.optionalText().flatMap(WakeAttempt.Kind.init), row.optionalText())
      let (status, latency) = (try row.optionalInteger(), try row.optionalBigint())
      // A word of a later build.
      guard let outcome = WakeAttempt.Outcome(rawValue: try row.text()) else { continue }
      attempts.append(
        WakeAttempt(
          asked: asked, claimed: claimed, number: number, provider: provider, kind: kind, answer: answer,
          status: status.map(Int.init), latency: latency.map { .milliseconds($0) }, outcome: outcome,
          isTest: try row.boolean()))
    }
    return attempts
  }
}
