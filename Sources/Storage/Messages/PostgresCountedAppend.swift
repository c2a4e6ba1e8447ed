import RelayCore

extension PostgresStorage {
  /// As `insertStep`, and counts what of `envelopes` peers handed over as accepted: what is stored now, and not what
  /// was stored before. Apart from it, so that a relay's own traffic does not pay for it.
  static func countedInsertStep(
    _ envelopes: [Envelope], _ watched: Set<DeviceAddress>, seenDay: PostgresMailboxDays.Day?
  ) -> PostgresStep {
    let crossings = envelopes.map(\.crossing)
    var sums = PostgresLedgerSums()
    var marks: Set<CrossingMark> = []
    var areDifferent = true
    for (envelope, crossing) in zip(envelopes, crossings) {
      guard let crossing, let relay = envelope.relay else { continue }
      sums.add(crossing, of: relay)
      areDifferent = marks.insert(crossing.mark).inserted && areDifferent
    }
    let accounts = PostgresParameter(each: envelopes.lazy.map(\.destination.account))
    let devices = PostgresParameter(each: envelopes.lazy.map(\.destination.device))
    let fingerprints = PostgresParameter(each: envelopes.lazy.map(\.fingerprint))
    let seenDay = PostgresParameter(seenDay.map(PostgresDate.init))
    let watched = PostgresAppended.accounts(watched)
    return PostgresStep(
      "append_counted",
      """
      \(reserving: envelopes.reduce(400) { $0 + 180 + $1.byteCount })
      WITH stored AS (
        INSERT INTO messages AS n (account, device, sequence, day, \(MessageColumns.self), fingerprint)
        SELECT account, device, sequence, day, \(MessageColumns.self), fingerprint
        FROM (
          SELECT nextval('message_sequence') AS sequence, accepted.* FROM (
            SELECT account, device, c.today AS day, \(MessageColumns.self), fingerprint
            FROM unnest(\(accounts), \(devices), \(columnsOf: envelopes), \(fingerprints))
              WITH ORDINALITY AS i (account, device, \(MessageColumns.self), fingerprint, place)
            CROSS JOIN (SELECT relay_arrival_day(\(seenDay)) AS today) AS c
            WHERE NOT EXISTS (
                SELECT FROM acknowledged AS a
                WHERE a.account = i.account AND a.device = i.device AND a.fingerprint = i.fingerprint
                  AND a.day >= relay_present_day(\(seenDay)) - 1)
              AND NOT EXISTS (
                SELECT FROM messages AS m
                WHERE m.account = i.account AND m.device = i.device AND m.fingerprint = i.fingerprint
                  AND m.day >= relay_present_day(\(seenDay)) - 1)
            ORDER BY i.place
          ) AS accepted
        ) AS numbered
        ORDER BY account, device, fingerprint
        ON CONFLICT (account, device, fingerprint, day) DO NOTHING
        RETURNING n.account, n.device, n.fingerprint, n.relay, n.sequence,
          CASE WHEN (\(watched))[width_bucket(n.account, \(watched))] = n.account THEN ARRAY(
            SELECT m.sequence FROM messages AS m
            WHERE m.account = n.account AND m.device = n.device AND m.day >= relay_present_day(\(seenDay)) - 1
            ORDER BY m.sequence LIMIT \(PostgresAppended.othersLimit)
          ) END AS others
      ),
      -- As a rule all are news: then their sums are known.
      news AS MATERIALIZED (
        SELECT count(*) = cardinality(\(accounts)) AND \(areDifferent) AS are_all FROM stored
      ),
      crossed AS (
        SELECT DISTINCT s.relay, g.hour, g.kind, g.mark
        FROM stored AS s
          JOIN unnest(
              \(accounts), \(devices), \(fingerprints), \(each: crossings.lazy.map { $0?.hour.number ?? 0 }),
              \(each: crossings.lazy.map { $0?.kind.rawValue ?? 0 }), \(each: crossings.lazy.map { $0?.mark.bits }))
            AS g (account, device, fingerprint, hour, kind, mark) USING (account, device, fingerprint)
        WHERE NOT (SELECT are_all FROM news) AND s.relay IS NOT NULL AND g.mark IS NOT NULL
      ),
      counted AS (
        INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
        SELECT relay, hour, kind, 3, pg_backend_pid() % 16, crossings, low, high
        FROM (
          SELECT relay, hour, kind, count(*) AS crossings, sum(mark & 4294967295)::bigint AS low,
            sum((mark >> 32) & 4294967295)::bigint AS high
          FROM crossed GROUP BY relay, hour, kind
          UNION ALL
          SELECT relay, hour, kind, crossings, low, high
          FROM unnest(
              \(each: sums.all.lazy.map(\.relay)), \(each: sums.all.lazy.map(\.hour.number)),
              \(each: sums.all.lazy.map(\.kind.rawValue)), \(each: sums.all.lazy.map(\.count)),
              \(each: sums.all.lazy.map(\.low)), \(each: sums.all.lazy.map(\.high)))
            AS s (relay, hour, kind, crossings, low, high)
          WHERE (SELECT are_all FROM news)
        ) AS sums
        ORDER BY relay COLLATE "C", hour, kind
        ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
          SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
      )
      SELECT account, device, fingerprint, sequence, others FROM stored
      """)
  }
}
