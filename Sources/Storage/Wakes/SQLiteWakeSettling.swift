import GRDB
package import RelayCore

extension SQLiteStorage {
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
    let isIt: SQL = "account = \(job.device.account) AND device = \(job.device.device) AND claim = \(job.claim)"
    let found = try db.row("SELECT version, test FROM wakes WHERE \(isIt)")
    guard let found else { return }
    let isAskedAgain = try found.integer(0) != job.version
    if columns.drops, !isAskedAgain {
      return try db.run("DELETE FROM wakes WHERE \(isIt)")
    }
    let isTest = try found.flag(1)
    let isTestAskedFor = isTest && isAskedAgain
    let rests = columns.rests && !isAskedAgain
    let keepsTest = isTest && (isAskedAgain || columns.keepsAttempts || columns.followsCall)
    let notBefore = isTestAskedFor ? 0 : now + columns.hold
    let wait = isTestAskedFor ? 0 : isAskedAgain ? columns.hold : columns.pause
    try db.run(
      """
      UPDATE wakes SET claim = NULL, follows_call = \(columns.followsCall), rests = \(rests),
        attempts = iif(\(columns.keepsAttempts), max(attempts - \(columns.uncounted), 0), 0), test = \(keepsTest),
        not_before = \(notBefore), due = \(now + (rests ? columns.memory : wait))
      WHERE \(isIt)
      """)
  }

  // MARK: The flight recorder

  private static func record(_ attempt: WakeAttempt, of device: DeviceAddress, in db: Database) throws {
    let (account, id) = (device.account, device.device)
    try db.run(
      """
      INSERT INTO wake_history (asked, claimed, attempt, provider, kind, answer, status, latency, outcome, test,
        account, device)
      SELECT \(attempt.asked), \(attempt.claimed), \(attempt.number), \(attempt.provider?.rawValue),
        \(attempt.kind?.rawValue), \(attempt.answer), \(attempt.status), \(attempt.latency?.wakeMillis),
        \(attempt.outcome.rawValue), \(attempt.isTest), account, device
      FROM devices WHERE account = \(account) AND device = \(id)
      """)
    try db.run(
      """
      DELETE FROM wake_history WHERE account = \(account) AND device = \(id) AND entry <= (
        SELECT entry FROM wake_history WHERE account = \(account) AND device = \(id)
        ORDER BY entry DESC LIMIT 1 OFFSET \(WakeAttempt.keptMax))
      """)
  }

  package func wakeHistory(of device: DeviceAddress) async throws(StoreError) -> [WakeAttempt] {
    try await read { db in
      try db.rows(
        """
        SELECT asked, claimed, attempt, provider, kind, answer, status, latency, outcome, test FROM wake_history
        WHERE account = \(device.account) AND device = \(device.device)
        ORDER BY entry DESC LIMIT \(WakeAttempt.keptMax)
        """
      ).compactMap(WakeAttempt.init(row:))
    }
  }
}

extension WakeAttempt {
  /// - Returns: nil where the outcome is a word of a later build.
  fileprivate init?(row: Fields) throws(StoreError) {
    guard let outcome = Outcome(rawValue: try row.text(8)) else { return nil }
    self.init(
      asked: try row.time(0), claimed: try row.time(1), number: Int(try row.integer(2)),
      provider: row.optionalInteger(3).flatMap { WakeProvider(rawValue: Int16(truncatingIfNeeded: $0)) },
      kind: row.optionalText(4).flatMap(Kind.init), answer: row.optionalText(5),
      status: row.optionalInteger(6).map { Int($0) }, latency: row.optionalInteger(7).map { .milliseconds($0) },
      outcome: outcome, isTest: try row.flag(9))
  }
}
