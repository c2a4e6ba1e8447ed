import GRDB
package import RelayCore

extension SQLiteStorage {
  package func announceWakeProviders(_ providers: [WakeProvider]) async throws(StoreError) -> [WakeProvider] {
    let now = clock.now().millis
    return try await write { db in
      for provider in providers {
        try db.run(
          """
          INSERT INTO wake_providers (provider, announced) VALUES (\(provider.rawValue), \(now))
          ON CONFLICT (provider) DO UPDATE SET announced = excluded.announced
          """)
      }
      let rows = try db.rows(
        """
        SELECT provider FROM wake_providers
        WHERE announced >= \(now - WakeTerms.announcedFor.wakeMillis) ORDER BY provider
        """)
      return try rows.compactMap { WakeProvider(rawValue: Int16(clamping: try $0.integer(0))) }
    }
  }

  package func beginWakeSweep(pause: Duration, _ terms: WakeTerms) async throws(StoreError) {
    let clock = clock.now()
    let now = clock.millis
    try await write { db in
      try Self.freeWakes(now, terms, in: db)
      try db.run(
        """
        UPDATE wake_sweeps SET swept = iif(n.late, n.last, swept), ready = iif(n.late, n.last, bound), bound = n.last,
          began = \(now)
        FROM (
          SELECT began < \(now - terms.lifetime.wakeMillis) AS late,
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) AS last
          FROM wake_sweeps
        ) AS n
        WHERE began <= \(now - pause.wakeMillis) OR began > \(now + WakeTerms.skew.wakeMillis)
        """)
      // If the clock is not believed nothing is forgotten.
      let past = try Self.seenTime(in: db).removalTime(at: clock).millis
      try db.run("DELETE FROM wakes WHERE rests AND due <= \(past)")
      // Jobs that no process claims: their provider is not configured any more.
      try db.run("DELETE FROM wakes WHERE NOT rests AND expires < \(past) AND due < \(past - Timestamp.millisPerDay)")
      try db.run("DELETE FROM wake_history WHERE claimed < \(past - WakeAttempt.keptFor.wakeMillis)")
    }
  }

  /// As PostgreSQL's: frees rows behind a clock that was ahead.
  private static func freeWakes(_ now: Int64, _ terms: WakeTerms, in db: Database) throws {
    let late = now + WakeTerms.skew.wakeMillis
    guard try db.row("SELECT 1 FROM wake_sweeps WHERE began > \(late)") != nil else { return }
    try db.run(
      """
      UPDATE wakes SET not_before = min(not_before, \(now)), newest = min(newest, \(now)),
        requested = min(requested, \(now)), expires = min(expires, \(now + terms.lifetime.wakeMillis)),
        due = min(due, iif(rests OR claim IS NOT NULL, \(late), \(now)))
      WHERE max(newest, not_before, due) > \(late)
      """)
  }

  package func lastWakeSweep() async throws(StoreError) -> Timestamp {
    try await read { db in try Fields.valid(db.row("SELECT began FROM wake_sweeps")).time(0) }
  }

  package func sweepWakes(stretch: Int64, reach: Int64, _ terms: WakeTerms) async throws(StoreError) -> WakeSweepStep {
    let (now, yesterday) = (clock.now(), presentDay - 1)
    return try await write { db in
      let place = try Fields.valid(db.row("SELECT swept, ready FROM wake_sweeps"))
      let (swept, ready) = try (place.integer(0), place.integer(1))
      let low = max(swept, ready - reach)
      let high = min(ready, low + stretch)
      guard low < high else { return WakeSweepStep(asked: 0, isDone: true) }
      let found = try db.rows(
        """
        SELECT m.account, m.device, \(WakeProvider.self)
        FROM (
          SELECT account, device, max(sequence) AS newest FROM messages
          WHERE sequence > \(low) AND sequence <= \(high) AND day >= \(yesterday) GROUP BY account, device
        ) AS m JOIN devices AS d ON d.account = m.account AND d.device = m.device
        WHERE NOT EXISTS (
          SELECT 1 FROM wakes AS w WHERE w.account = m.account AND w.device = m.device
            AND (w.covers >= m.newest OR NOT w.rests AND w.claim IS NULL))
        """)
      var asked = 0
      for row in found {
        guard let provider = try terms.provider(row, 2) else { continue }
        let device = try DeviceAddress(row.number(0), row.device(1))
        try Self.ask(WakeAsk(device), provider, lifetime: terms.lifetime, now: now.millis, in: db)
        asked += 1
      }
      try db.run("UPDATE wake_sweeps SET swept = max(swept, \(high))")
      return WakeSweepStep(asked: asked, isDone: high == ready)
    }
  }
}
