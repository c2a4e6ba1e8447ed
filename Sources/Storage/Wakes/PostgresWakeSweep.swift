// The sweep closes the gap between the commit of a message and its wake-up: a process may have died in between.

package import RelayCore

extension PostgresStorage {
  package func announceWakeProviders(_ providers: [WakeProvider]) async throws(StoreError) -> [WakeProvider] {
    let result = try await write(
      "announce_wake_providers",
      """
      WITH ours AS (
        INSERT INTO wake_providers (provider, announced)
        SELECT provider, floor(extract(epoch FROM now()) * 1000)::bigint
        FROM unnest(\(each: providers.lazy.map(\.rawValue))) AS p (provider)
        ORDER BY provider
        ON CONFLICT (provider) DO UPDATE SET announced = excluded.announced
        RETURNING provider
      )
      SELECT provider FROM ours
      UNION
      SELECT provider FROM wake_providers
      WHERE announced >= floor(extract(epoch FROM now()) * 1000)::bigint - \(WakeTerms.announcedFor.wakeMillis)
      ORDER BY provider
      """)
    // A newer build may send through a provider that this one does not know.
    let all = try result.all { (row) throws(StoreError) in WakeProvider(rawValue: try row.smallint()) }
    return all.compactMap(\.self)
  }

  package func beginWakeSweep(pause: Duration, _ terms: WakeTerms) async throws(StoreError) {
    try await freeWakes(terms)
    let lifetime = PostgresParameter(terms.lifetime.wakeMillis)
    _ = try await write(
      "begin_wake_sweep",
      """
      WITH n AS MATERIALIZED (
        SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS last,
          floor(extract(epoch FROM now()) * 1000)::bigint AS now
        FROM message_sequence
      )
      UPDATE wake_sweeps AS w
      SET swept = CASE WHEN w.began < n.now - \(lifetime) THEN n.last ELSE w.swept END,
        ready = CASE WHEN w.began < n.now - \(lifetime) THEN n.last ELSE w.bound END,
        bound = n.last, began = n.now
      FROM n WHERE w.began <= n.now - \(pause.wakeMillis) OR w.began > n.now + \(WakeTerms.skew.wakeMillis)
      """)
    // If the clock is not believed nothing is forgotten.
    let past = try await clockReading().removalTime.millis
    let layout = await layout
    for step in [Self.rested(past, layout), Self.unclaimed(past, layout), Self.history(past)] {
      for _ in 0..<Self.pagesMax {
        let count = try await writeBulk([step]).first?.affectedRows ?? 0
        if count < Self.page || Task.isCancelled { break }
      }
    }
  }

  /// Frees rows behind a clock that was ahead. Such a clock shows by the last sweep, which began in the future. Rows
  /// that were put off by its word are free at once; a job that is under way, and a device that was just woken, in a
  /// minute.
  private func freeWakes(_ terms: WakeTerms) async throws(StoreError) {
    let isBack = try await read(
      "wake_clock_is_back",
      """
      SELECT began > floor(extract(epoch FROM now()) * 1000)::bigint + \(WakeTerms.skew.wakeMillis) FROM wake_sweeps
      """
    ).first { (row) throws(StoreError) in try row.boolean() }
    guard isBack == true else { return }
    let layout = await layout
    let step = Self.freeStep(terms, layout)
    while !Task.isCancelled {
      let count = try await writeBulk([step]).first?.affectedRows ?? 0
      // In a distributed store they go all at once.
      if count < Self.page || layout == .distributed { break }
    }
  }

  private static func freeStep(_ terms: WakeTerms, _ layout: PostgresLayout) -> PostgresStep {
    let now: PostgresQuery = "floor(extract(epoch FROM now()) * 1000)::bigint"
    let skew = PostgresParameter(WakeTerms.skew.wakeMillis)
    let free: PostgresQuery = """
      UPDATE wakes AS w
      SET not_before = least(w.not_before, \(now)), newest = least(w.newest, \(now)),
        requested = least(w.requested, \(now)), expires = least(w.expires, \(now) + \(terms.lifetime.wakeMillis)),
        due = least(w.due, \(now) + CASE WHEN w.rests OR w.claim IS NOT NULL THEN \(skew) ELSE 0 END)
      """
    guard layout == .whole else {
      return PostgresStep("free_wakes", "\(free) WHERE greatest(w.newest, w.not_before, w.due) > \(now) + \(skew)")
    }
    return PostgresStep(
      "free_wakes",
      """
      WITH locked AS MATERIALIZED (
        SELECT account, device FROM wakes WHERE greatest(newest, not_before, due) > \(now) + \(skew)
        ORDER BY account, device LIMIT \(Int64(page)) FOR UPDATE
      )
      \(free) FROM locked AS l WHERE w.account = l.account AND w.device = l.device
      """)
  }

  package func lastWakeSweep() async throws(StoreError) -> Timestamp {
    let result = try await read("last_wake_sweep", "SELECT began FROM wake_sweeps")
    var row = result.cursor(row: 0)
    return try row.timestamp()
  }

  // MARK: What is past keeping

  /// Rows of one statement, and statements of one kind and sweep: more than a relay wakes meanwhile.
  private static let page = 10_000
  private static let pagesMax = 20

  /// In a distributed store no row is locked ahead: one that has changed meanwhile is looked at again.
  private static func rested(_ past: Int64, _ layout: PostgresLayout) -> PostgresStep {
    let past = PostgresParameter(past)
    return PostgresStep(
      "forget_rested_wakes",
      layout == .whole
        ? """
        DELETE FROM wakes AS w USING (
          SELECT account, device FROM wakes
          WHERE rests AND due <= \(past)
          ORDER BY due LIMIT \(Int64(page)) FOR UPDATE SKIP LOCKED
        ) AS l
        WHERE w.account = l.account AND w.device = l.device
        """
        : """
        DELETE FROM wakes AS w USING (
          SELECT account, device FROM wakes WHERE rests AND due <= \(past) ORDER BY due LIMIT \(Int64(page))
        ) AS l
        WHERE w.account = l.account AND w.device = l.device AND w.rests AND w.due <= \(past)
        """)
  }

  /// Jobs that no process claims: no process has their provider any more.
  private static func unclaimed(_ past: Int64, _ layout: PostgresLayout) -> PostgresStep {
    let past = PostgresParameter(past)
    let providers = PostgresParameter(each: WakeProvider.allCases.lazy.map(\.rawValue))
    return PostgresStep(
      "forget_unclaimed_wakes",
      layout == .whole
        ? """
        DELETE FROM wakes AS w USING (
          SELECT account, device FROM wakes
          WHERE NOT rests AND provider = ANY (\(providers))
            AND expires < \(past) AND due < \(past) - \(Timestamp.millisPerDay)
          ORDER BY due LIMIT \(Int64(page)) FOR UPDATE SKIP LOCKED
        ) AS l
        WHERE w.account = l.account AND w.device = l.device
        """
        : """
        DELETE FROM wakes AS w USING (
          SELECT account, device FROM wakes
          WHERE NOT rests AND provider = ANY (\(providers))
            AND expires < \(past) AND due < \(past) - \(Timestamp.millisPerDay)
          ORDER BY due LIMIT \(Int64(page))
        ) AS l
        WHERE w.account = l.account AND w.device = l.device AND NOT w.rests
          AND w.expires < \(past) AND w.due < \(past) - \(Timestamp.millisPerDay)
        """)
  }

  private static func history(_ past: Int64) -> PostgresStep {
    PostgresStep(
      "forget_wake_history",
      """
      DELETE FROM wake_history WHERE (account, device, entry) IN (
        SELECT account, device, entry FROM wake_history
        WHERE claimed < \(past - WakeAttempt.keptFor.wakeMillis)
        ORDER BY claimed LIMIT \(Int64(page)))
      """)
  }

  // MARK: Looking

  package func sweepWakes(stretch: Int64, reach: Int64, _ terms: WakeTerms) async throws(StoreError) -> WakeSweepStep {
    let place = try await read("wake_sweep", "SELECT swept, ready FROM wake_sweeps")
    var row = place.cursor(row: 0)
    let (swept, ready) = (try row.bigint(), try row.bigint())
    let low = max(swept, ready - reach)
    let high = min(ready, low + stretch)
    guard low < high else { return WakeSweepStep(asked: 0, isDone: true) }
    let results = try await writeBulk([
      sweepStep(from: low, to: high, terms, await layout),
      PostgresStep(
        "wake_sweep_done", "UPDATE wake_sweeps SET swept = greatest(swept, \(high))"),
    ])
    return WakeSweepStep(asked: results.first?.affectedRows ?? 0, isDone: high == ready)
  }

  /// Reads the messages first, by the index on their arrival; then the few devices that they are for. A device that
  /// waits is woken in any case. One that rests, or is just being woken, comes again for messages accepted since the
  /// claim.
  ///
  /// In a distributed store the servers of the messages, which have the wakes too, leave out the devices that are not
  /// to be asked for; the coordinator has the devices.
  private func sweepStep(
    from low: Int64, to high: Int64, _ terms: WakeTerms, _ layout: PostgresLayout
  ) -> PostgresStep {
    let seenDay = PostgresParameter(seenDay.map(PostgresDate.init))
    let known: StaticString = """
      NOT EXISTS (
                SELECT FROM wakes AS k WHERE k.account = m.account AND k.device = m.device
                  AND (k.covers >= m.newest OR NOT k.rests AND k.claim IS NULL))
      """
    return PostgresStep(
      "sweep_wakes",
      """
      WITH waiting AS MATERIALIZED (
        SELECT account, device, newest FROM (
          SELECT account, device, max(sequence) AS newest FROM messages
          WHERE sequence > \(low) AND sequence <= \(high) AND day >= \(presentDay: layout, seenDay) - 1
          GROUP BY account, device
        ) AS m
        WHERE \(fragment: layout == .whole ? "true" : known)
      )
      INSERT INTO wakes AS w (account, device, provider, version, rests, requested, newest, due, not_before, expires,
        attempts, follows_call, test, covers)
      SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, f.now, 0, f.now + \(terms.lifetime.wakeMillis),
        0, false, false, f.newest - 1
      FROM (
        SELECT d.account, d.device, m.newest, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
          \(WakeProvider.self) AS provider
        FROM waiting AS m JOIN devices AS d ON d.account = m.account AND d.device = m.device
        WHERE \(fragment: layout == .whole ? known : "true")
      ) AS f
      WHERE f.provider = ANY (\(each: terms.providers.lazy.map(\.rawValue)))
      ORDER BY f.account, f.device
      ON CONFLICT (account, device) DO UPDATE
      SET version = w.version + 1, provider = excluded.provider, expires = excluded.expires, rests = false,
        newest = excluded.newest, requested = CASE WHEN w.rests THEN excluded.requested ELSE w.requested END,
        due = CASE WHEN w.claim IS NULL THEN greatest(w.not_before, excluded.due) ELSE w.due END
      WHERE (w.rests OR w.claim IS NOT NULL) AND w.covers <= excluded.covers
      """)
  }
}
