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
    let layout = await layout
    // The rows first: what is asked for meanwhile waits, and is seen by no statement but half. In a distributed store
    // rows of several shards cannot be locked ahead. There each statement waits for a row, and judges it anew.
    var steps = layout == .whole ? [Self.lockWakesStep(jobs)] : []
    steps += [Self.dropStep(jobs, columns, layout), Self.releaseStep(jobs, columns, layout)]
    steps += recorded
    if !trims.isEmpty { steps.append(Self.trimStep(Array(Set(trims)), layout)) }
    _ = try await write(steps)
  }

  private static func lockWakesStep(_ jobs: [WakeJob]) -> PostgresStep {
    PostgresStep(
      "lock_wakes",
      """
      SELECT 1 FROM wakes WHERE (account, device) IN (
        SELECT * FROM unnest(\(each: jobs.lazy.map(\.device.account)), \(each: jobs.lazy.map(\.device.device))))
      ORDER BY account, device FOR UPDATE
      """)
  }

  private static func dropStep(
    _ jobs: [WakeJob], _ columns: [WakeSettlementColumns], _ layout: PostgresLayout
  ) -> PostgresStep {
    let dropped = zip(jobs, columns).filter { $1.drops }.map(\.0)
    let accounts = PostgresParameter(each: dropped.lazy.map(\.device.account))
    return PostgresStep(
      "drop_wakes",
      """
      DELETE FROM wakes AS w
      USING unnest(
          \(accounts), \(each: dropped.lazy.map(\.device.device)),
          \(each: dropped.lazy.map(\.claim)), \(each: dropped.lazy.map(\.version)))
        AS i (account, device, claim, version)
      WHERE w.account = i.account AND w.device = i.device AND w.claim = i.claim AND w.version = i.version\(
          routing: layout, "w", to: accounts)
      """)
  }

  /// Releases the claims. Jobs that were to be dropped, and were asked for again, are still there.
  private static func releaseStep(
    _ jobs: [WakeJob], _ columns: [WakeSettlementColumns], _ layout: PostgresLayout
  ) -> PostgresStep {
    let accounts = PostgresParameter(each: jobs.lazy.map(\.device.account))
    return PostgresStep(
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
      FROM unnest(
          \(accounts), \(each: jobs.lazy.map(\.device.device)),
          \(each: jobs.lazy.map(\.claim)), \(each: jobs.lazy.map(\.version)),
          \(each: columns.lazy.map(\.rests)), \(each: columns.lazy.map(\.followsCall)),
          \(each: columns.lazy.map(\.keepsAttempts)), \(each: columns.lazy.map(\.uncounted)),
          \(each: columns.lazy.map(\.hold)), \(each: columns.lazy.map(\.pause)),
          \(each: columns.lazy.map(\.memory)))
        AS i (account, device, claim, version, rests, follows_call, keeps_attempts, uncounted, hold, pause, memory)
      CROSS JOIN (SELECT floor(extract(epoch FROM now()) * 1000)::bigint AS now) AS n
      WHERE w.account = i.account AND w.device = i.device AND w.claim = i.claim\(routing: layout, "w", to: accounts)
      """)
  }

  // MARK: The flight recorder

  /// Only of a device that is still there: who is gone leaves no trace.
  private static func recordStep(_ attempt: WakeAttempt, of device: DeviceAddress) -> PostgresStep {
    PostgresStep(
      "record_wake",
      """
      INSERT INTO wake_history (account, device, asked, claimed, attempt, provider, kind, answer, status, latency,
        outcome, test)
      SELECT account, device, \(attempt.asked), \(attempt.claimed), \(Int32(clamping: attempt.number)),
        \(attempt.provider?.rawValue), \(attempt.kind?.rawValue), \(attempt.answer),
        \(attempt.status.map { Int32(clamping: $0) }), \(attempt.latency?.wakeMillis), \(attempt.outcome.rawValue),
        \(attempt.isTest)
      FROM devices WHERE account = \(device.account) AND device = \(device.device)
      """)
  }

  private static func trimStep(_ devices: [DeviceAddress], _ layout: PostgresLayout) -> PostgresStep {
    let accounts = PostgresParameter(each: devices.lazy.map(\.account))
    // In a distributed store the look-up must name the row that it is for, which is at the same server.
    let row: StaticString = layout == .whole ? "i" : "h"
    return PostgresStep(
      "trim_wake_history",
      """
      DELETE FROM wake_history AS h
      USING unnest(\(accounts), \(each: devices.lazy.map(\.device))) AS i (account, device)
      WHERE h.account = i.account AND h.device = i.device AND h.entry <= (
        SELECT entry FROM wake_history AS k
        WHERE k.account = \(fragment: row).account AND k.device = \(fragment: row).device
        ORDER BY entry DESC OFFSET \(Int64(WakeAttempt.keptMax)) LIMIT 1)\(routing: layout, "h", to: accounts)
      """)
  }

  package func wakeHistory(of device: DeviceAddress) async throws(StoreError) -> [WakeAttempt] {
    let result = try await read(
      "wake_history",
      """
      SELECT asked, claimed, attempt, provider::integer, kind, answer, status, latency, outcome, test FROM wake_history
      WHERE account = \(device.account) AND device = \(device.device)
      ORDER BY entry DESC LIMIT \(Int64(WakeAttempt.keptMax))
      """)
    return try result.all(WakeAttempt.init(row:)).compactMap(\.self)
  }
}

extension WakeAttempt {
  /// - Returns: nil where the outcome is a word of a later build.
  fileprivate init?(row: inout PostgresRow) throws(StoreError) {
    let (asked, claimed, number) = (try row.timestamp(), try row.timestamp(), Int(try row.integer()))
    let provider = try row.optionalInteger().flatMap { WakeProvider(rawValue: Int16(truncatingIfNeeded: $0)) }
    let (kind, answer) = (row.optionalText().flatMap(Kind.init), row.optionalText())
    let (status, latency) = (try row.optionalInteger(), try row.optionalBigint())
    guard let outcome = Outcome(rawValue: try row.text()) else { return nil }
    self.init(
      asked: asked, claimed: claimed, number: number, provider: provider, kind: kind, answer: answer,
      status: status.map(Int.init), latency: latency.map { .milliseconds($0) }, outcome: outcome,
      isTest: try row.boolean())
  }
}
