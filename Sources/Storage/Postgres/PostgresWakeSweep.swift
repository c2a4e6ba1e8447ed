// What closes the gap between the commit of a message and its wake-up: a process that died in between.

package import RelayCore

extension PostgresStorage {
  package func beginWakeSweep(pause: Duration) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "begin_wake_sweep",
        """
        UPDATE wake_sweeps
        SET ready = bound,
          bound = (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM message_sequence),
          began = floor(extract(epoch FROM now()) * 1000)::bigint
        WHERE began <= floor(extract(epoch FROM now()) * 1000)::bigint - $1::bigint
        """), PostgresParameters { $0.add(bigint: pause.wakeMillis) })
    _ = try await write([
      PostgresStep(
        .prepared(
          "forget_rested_wakes",
          """
          DELETE FROM wakes AS w USING (
            SELECT account, device FROM wakes
            WHERE rests AND due <= floor(extract(epoch FROM now()) * 1000)::bigint
            ORDER BY due LIMIT 50000 FOR UPDATE SKIP LOCKED
          ) AS l
          WHERE w.account = l.account AND w.device = l.device
          """))
    ])
    // What nobody claims: a provider that no process has any more.
    _ = try await write([
      PostgresStep(
        .prepared(
          "forget_unclaimed_wakes",
          """
          DELETE FROM wakes AS w USING (
            SELECT account, device FROM wakes
            WHERE NOT rests AND provider = ANY ($1::smallint[]) AND expires < floor(extract(epoch FROM now()) * 1000)::bigint
              AND due < floor(extract(epoch FROM now()) * 1000)::bigint - $2::bigint
            ORDER BY due LIMIT 10000 FOR UPDATE SKIP LOCKED
          ) AS l
          WHERE w.account = l.account AND w.device = l.device
          """),
        PostgresParameters {
          $0.add(smallints: WakeProvider.allCases.map(\.rawValue))
          $0.add(bigint: Timestamp.millisPerDay)
        })
    ])
    _ = try await write([
      PostgresStep(
        .prepared(
          "forget_wake_history",
          """
          DELETE FROM wake_history WHERE (account, device, entry) IN (
            SELECT account, device, entry FROM wake_history
            WHERE claimed < floor(extract(epoch FROM now()) * 1000)::bigint - $1::bigint
            ORDER BY claimed LIMIT 10000)
          """), PostgresParameters { $0.add(bigint: WakeAttempt.keptFor.wakeMillis) })
    ])
  }

  package func sweepWakes(stretch: Int64, reach: Int64, _ terms: WakeTerms) async throws(StoreError) -> WakeSweepStep {
    let place = try await read(.prepared("wake_sweep", "SELECT swept, ready FROM wake_sweeps"))
    var row = place.cursor(row: 0)
    let (swept, ready) = (try row.bigint(), try row.bigint())
    let low = max(swept, ready - reach)
    let high = min(ready, low + stretch)
    guard low < high else { return WakeSweepStep(asked: 0, isDone: true) }
    let results = try await writeBulk([
      Self.sweepStep(from: low, to: high, terms),
      PostgresStep(
        .prepared("wake_sweep_done", "UPDATE wake_sweeps SET swept = greatest(swept, $1::bigint)"),
        PostgresParameters { $0.add(bigint: high) }),
    ])
    return WakeSweepStep(asked: results.first?.affectedRows ?? 0, isDone: high == ready)
  }

  /// The messages first, by the index on their arrival; then the few devices that they are for.
  private static func sweepStep(from low: Int64, to high: Int64, _ terms: WakeTerms) -> PostgresStep {
    PostgresStep(
      .prepared(
        "sweep_wakes",
        """
        WITH waiting AS MATERIALIZED (
          SELECT DISTINCT account, device FROM messages
          WHERE sequence > $1::bigint AND sequence <= $2::bigint AND day >= (now() AT TIME ZONE 'UTC')::date - 1
        )
        INSERT INTO wakes (account, device, provider, version, rests, requested, due, not_before, expires, attempts,
          follows_call, test)
        SELECT f.account, f.device, f.provider, 1, false, f.now, f.now, 0, f.now + $3::bigint, 0, false, false
        FROM (
          SELECT d.account, d.device, floor(extract(epoch FROM now()) * 1000)::bigint AS now,
            CASE WHEN d.gcm_id IS NOT NULL THEN 1 WHEN d.apn_id IS NOT NULL THEN 2 END::smallint AS provider
          FROM waiting AS m JOIN devices AS d ON d.account = m.account AND d.device = m.device
        ) AS f
        WHERE f.provider = ANY ($4::smallint[])
        ORDER BY f.account, f.device
        ON CONFLICT (account, device) DO NOTHING
        """),
      PostgresParameters {
        $0.add(bigint: low)
        $0.add(bigint: high)
        $0.add(bigint: terms.lifetime.wakeMillis)
        $0.add(smallints: terms.providers.lazy.map(\.rawValue))
      })
  }
}
