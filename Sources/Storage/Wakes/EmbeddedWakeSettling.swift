import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func settleWakes(_ settlements: [WakeSettlement]) async throws(StoreError) {
    guard !settlements.isEmpty else { return }
    let now = clock.now().millis
    try await write { db in
      for settlement in settlements {
        try Self.settle(settlement, now: now, in: db)
        if let attempt = settlement.recorded { try Self.record(attempt, of: settlement.job.device, in: db) }
      }
    }
  }

  private static func settle(_ settlement: WakeSettlement, now: Int64, in db: Database) throws {
    let job = settlement.job
    let columns = WakeSettlementColumns(settlement.disposal, of: job)
    let key: StatementArguments = [job.device.account.key, job.device.device.value, job.claim]
    let found = try db.row("SELECT version, test FROM wakes WHERE account = ? AND device = ? AND claim = ?", key)
    guard let found else { return }
    let isAskedAgain = try found.integer(0) != job.version
    if columns.drops, !isAskedAgain {
      return try db.run("DELETE FROM wakes WHERE account = ? AND device = ? AND claim = ?", key)
    }
    let isTest = try found.flag(1)
    let isTestAskedFor = isTest && isAskedAgain
    let rests = columns.rests && !isAskedAgain
    let keepsTest = isTest && (isAskedAgain || columns.keepsAttempts || columns.followsCall)
    let wait = isTestAskedFor ? 0 : isAskedAgain ? columns.hold : columns.pause
    try db.run(
      """
      UPDATE wakes SET claim = NULL, follows_call = ?, rests = ?, attempts = iif(?, max(attempts - ?, 0), 0), test = ?, not_before = ?,
        due = ?
      WHERE account = ? AND device = ? AND claim = ?
      """,
      [
        columns.followsCall, rests, columns.keepsAttempts, columns.uncounted, keepsTest,
        isTestAskedFor ? 0 : now + columns.hold,
        now + (rests ? columns.memory : wait),
      ] + key)
  }

  // MARK: The flight recorder

  private static func record(_ attempt: WakeAttempt, of device: DeviceAddress, in db: Database) throws {
    let key: StatementArguments = [device.account.key, device.device.value]
    try db.run(
      """
      INSERT INTO wake_history (asked, claimed, attempt, provider, kind, answer, status, latency, outcome, test, account,
        device)
      SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, account, id FROM devices WHERE account = ? AND id = ?
      """,
      [
        attempt.asked.millis, attempt.claimed.millis, attempt.number, attempt.provider?.rawValue,
        attempt.kind?.rawValue, attempt.answer, attempt.status, attempt.latency?.wakeMillis, attempt.outcome.rawValue,
        attempt.isTest,
      ] + key)
    try db.run(
      """
      DELETE FROM wake_history WHERE account = ? AND device = ? AND entry <= (
        SELECT entry FROM wake_history WHERE account = ? AND device = ? ORDER BY entry DESC LIMIT 1 OFFSET ?)
      """, key + key + [WakeAttempt.keptMax])
  }

  package func wakeHistory(of device: DeviceAddress) async throws(StoreError) -> [WakeAttempt] {
    try await read { db in
      try db.rows(
        """
        SELECT asked, claimed, attempt, provider, kind, answer, status, latency, outcome, test FROM wake_history
        WHERE account = ? AND device = ? ORDER BY entry DESC LIMIT ?
        """, [device.account.key, device.device.value, WakeAttempt.keptMax]
      ).compactMap { row in
        // A word of a later build.
        guard let outcome = try WakeAttempt.Outcome(rawValue: row.text(8)) else { return nil }
        return try WakeAttempt(
          asked: row.time(0), claimed: row.time(1), number: Int(row.integer(2)),
          provider: row.optionalInteger(3).flatMap { WakeProvider(rawValue: Int16(truncatingIfNeeded: $0)) },
          kind: row.optionalText(4).flatMap(WakeAttempt.Kind.init), answer: row.optionalText(5),
          status: row.optionalInteger(6).map { Int($0) }, latency: row.optionalInteger(7).map { .milliseconds($0) },
          outcome: outcome, isTest: row.flag(9))
      }
    }
  }
}
