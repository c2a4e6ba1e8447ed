// What closes the gap between the commit of a message and its wake-up: a process that died in between.

package import RelayCore

extension PostgresStorage {
  package func announceWakeProviders(_ providers: [WakeProvider]) async throws(StoreError) -> [WakeProvider] {
    let result = try await write(
      .prepared(
        "announce_wake_providers",
        """
        WITH ours AS (
          INSERT INTO wake_providers (provider, announced)
          SELECT provider, floor(extract(epoch FROM now()) * 1000)::bigint FROM unnest($1::smallint[]) AS p (provider)
          ORDER BY provider
          ON CONFLICT (provider) DO UPDATE SET announced = excluded.announced
          RETURNING provider
        )
        SELECT provider FROM ours
        UNION
        SELECT provider FROM wake_providers
        WHERE announced >= floor(extract(epoch FROM now()) * 1000)::bigint - $2::bigint
        ORDER BY provider
        """),
      PostgresParameters {
        $0.add(smallints: providers.lazy.map(\.rawValue))
        $0.add(bigint: WakeTerms.announcedFor.wakeMillis)
      })
    var all: [WakeProvider] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      // A newer build may send through a provider that this one does not know.
      if let provider = WakeProvider(rawValue: try row.smallint()) { all.append(provider) }
    }
    return all
  }

  package func beginWakeSweep(pause: Duration, _ terms: WakeTerms) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "begin_wake_sweep",
        """
        WITH n AS MATERIALIZED (
          SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS last,
            floor(extract(epoch FROM now()) * 1000)::bigint AS now
          FROM message_sequence
        )
        UPDATE wake_sweeps AS w
        SET swept = CASE WHEN w.began < n.now - $2::bigint THEN n.last ELSE w.swept END,
          ready = CASE WHEN w.began < n.now - $2::bigint THEN n.last ELSE w.bound END,
          bound = n.last, began = n.now
        FROM n WHERE w.began <= n.now - $1::bigint
        """),
      PostgresParameters {
        $0.add(bigint: pause.wakeMillis)
        $0.add(bigint: terms.lifetime.wakeMillis)
      })
    // Where the clock is not believed nothing is forgotten.
    let past = try await clockReading().removalTime.millis
    for (statement, parameters) in [Self.rested(past), Self.unclaimed(past), Self.history(past)] {
      for _ in 0..<Self.pagesMax {
        let step = PostgresStep(statement, parameters)
        let count = try await writeBulk([step]).first?.affectedRows ?? 0
        if count < Self.page || Task.isCancelled { break }
      }
    }
  }

  package func lastWakeSweep() async throws(StoreError) -> Timestamp {
    let result = try await read(.prepared("last_wake_sweep", "SELECT began FROM wake_sweeps"))
    var row = result.cursor(row: 0)
    return try row.timestamp()
  }

  // MARK: What is past keeping

  /// Rows of one statement, and statements of one kind and sweep: more than a relay wakes meanwhile.
  private static let page = 10_000
  private static let pagesMax = 20

  private static func rested(_ past: Int64) -> (PostgresStatement, PostgresParameters) {
    (
      .prepared(
        "forget_rested_wakes",
        """
        DELETE FROM wakes AS w USING (
          SELECT account, device FROM wakes
          WHERE rests AND due <= $2::bigint
          ORDER BY due LIMIT $1::bigint FOR UPDATE SKIP LOCKED
        ) AS l
        WHERE w.account = l.account AND w.device = l.device
        """),
      PostgresParameters {
        $0.add(bigint: Int64(page))
        $0.add(bigint: past)
      }
    )
  }

  /// What nobody claims: a provider that no process has any more.
  private static func unclaimed(_ past: Int64) -> (PostgresStatement, PostgresParameters) {
    (
      .prepared(
        "forget_unclaimed_wakes",
        """
        DELETE FROM wakes AS w USING (
          SELECT account, device FROM wakes
          WHERE NOT rests AND provider = ANY ($1::smallint[]) AND expires < $4::bigint
            AND due < $4::bigint - $2::bigint
          ORDER BY due LIMIT $3::bigint FOR UPDATE SKIP LOCKED
        ) AS l
        WHERE w.account = l.account AND w.device = l.device
        """),
      PostgresParameters {
        $0.add(smallints: WakeProvider.allCases.map(\.rawValue))
        $0.add(bigint: Timestamp.millisPerDay)
        $0.add(bigint: Int64(page))
        $0.add(bigint: past)
      }
    )
  }

  private static func history(_ past: Int64) -> (PostgresStatement, PostgresParameters) {
    (
      .prepared(
        "forget_wake_history",
        """
        DELETE FROM wake_history WHERE (account, device, entry) IN (
          SELECT account, device, entry FROM wake_history
          WHERE claimed < $1::bigint
          ORDER BY claimed LIMIT $2::bigint)
        """),
      PostgresParameters {
        $0.add(bigint: past - WakeAttempt.keptFor.wakeMillis)
        $0.add(bigint: Int64(page))
      }
    )
  }

  // MARK: Looking

  package func sweepWakes(stretch: Int64, reach: Int64, _ terms: WakeTerms) async throws(StoreError) -> WakeSweepStep {
    let place = try await read(.prepared("wake_sweep", "SELECT swept, ready FROM wake_sweeps"))
    var row = place.cursor(row: 0)
    let (swept, ready) = (try row.bigint(), try row.bigint())
    let low = max(swept, ready - reach)
    let high = min(ready, low + stretch)
    guard low < high else { return WakeSweepStep(asked: 0, isDone: true) }
    let results = try await writeBulk([
      sweepStep(from: low, to: high, terms),
      PostgresStep(
        .prepared("wake_sweep_done", "UPDATE wake_sweeps SET swept = greatest(swept, $1::bigint)"),
        PostgresParameters { $0.add(bigint: high) }),
    ])
    return WakeSweepStep(asked: results.first?.affectedRows ?? 0, isDone: high == ready)
  }

  /// The messages first, by the index on their arrival; then the few devices that they are for. Who waits is woken in any
  /// case; who rests, or is just being woken, comes again for what has been accepted since the claim.
  private func sweepStep(from low: Int64, to high: Int64, _ terms: WakeTerms) -> PostgresStep {
    PostgresStep(
      .prepared(
        "sweep_wakes",
        """
        WITH waiting AS MATERIALIZED (
          SELECT account, device, max(sequence) AS newest FROM messages
          WHERE sequence > $1::bigint AND sequence <= $2::bigint AND day >= relay_present_day($5::date) - 1
          GROUP BY account, device
        )
        INSERT INTO wakes AS w (account, device, provider, version, rests, requested, newest, due, not_before, expires,
          attempts, follows_call, test, covers)
        SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, f.now, 0, f.now + $3::bigint, 0, false,
          false, f.newest - 1
        FROM (
          SELECT d.account, d.device, m.newest, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
            CASE WHEN d.gcm_id IS NOT NULL THEN 1 WHEN d.apn_id IS NOT NULL THEN 2 WHEN d.web_push IS NOT NULL THEN 3
            END::smallint AS provider
          FROM waiting AS m JOIN devices AS d ON d.account = m.account AND d.device = m.device
          WHERE NOT EXISTS (
            SELECT FROM wakes AS k WHERE k.account = m.account AND k.device = m.device
              AND (k.covers >= m.newest OR NOT k.rests AND k.claim IS NULL))
        ) AS f
        WHERE f.provider = ANY ($4::smallint[])
        ORDER BY f.account, f.device
        ON CONFLICT (account, device) DO UPDATE
        SET version = w.version + 1, provider = excluded.provider, expires = excluded.expires, rests = false,
          newest = excluded.newest, requested = CASE WHEN w.rests THEN excluded.requested ELSE w.requested END,
          due = CASE WHEN w.claim IS NULL THEN greatest(w.not_before, excluded.due) ELSE w.due END
        WHERE (w.rests OR w.claim IS NOT NULL) AND w.covers <= excluded.covers
        """),
      PostgresParameters {
        $0.add(bigint: low)
        $0.add(bigint: high)
        $0.add(bigint: terms.lifetime.wakeMillis)
        $0.add(smallints: terms.providers.lazy.map(\.rawValue))
        $0.add(integer: seenDay)
      })
  }
}
