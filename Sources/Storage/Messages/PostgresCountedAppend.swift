import RelayCore

extension PostgresStorage {
  /// As `insertStep`, and counts what of `envelopes` peers handed over as accepted: what is stored now, and not what
  /// was stored before. Apart from it, so that a relay's own traffic does not pay for it.
  static func countedInsertStep(_ envelopes: [Envelope], _ append: PostgresAppend) -> PostgresStep {
    let crossings = envelopes.map(\.crossing)
    var sums = PostgresLedgerSums()
    var marks: Set<CrossingMark> = []
    var areDifferent = true
    for (envelope, crossing) in zip(envelopes, crossings) {
      guard let crossing, let relay = envelope.relay else { continue }
      sums.add(crossing, of: relay)
      areDifferent = marks.insert(crossing.mark).inserted && areDifferent
    }
    return PostgresStep(
      "append_counted",
      """
      \(reserving: envelopes.reduce(400) { $0 + 180 + $1.byteCount })
      \(known: append, ",\n")\(fragment: append.layout == .whole ? "WITH " : "")stored AS (
        INSERT INTO messages AS n (account, device, sequence, day, \(MessageColumns.self), fingerprint)
        SELECT account, device, sequence, day, \(MessageColumns.self), fingerprint
        FROM (
          SELECT nextval('message_sequence') AS sequence, accepted.* FROM (
            SELECT account, device, c.today AS day, \(MessageColumns.self), fingerprint
            FROM unnest(\(append.accounts), \(append.devices), \(columnsOf: envelopes), \(append.fingerprints))
              WITH ORDINALITY AS i (account, device, \(MessageColumns.self), fingerprint, place)
            CROSS JOIN \(todayOf: append) AS c
            WHERE \(isNews: append)
            ORDER BY i.place
          ) AS accepted
        ) AS numbered
        ORDER BY account, device, fingerprint
        ON CONFLICT (account, device, fingerprint, day) DO NOTHING
        RETURNING n.account, n.device, n.fingerprint, n.relay, n.sequence, \(othersOf: append) AS others
      ),
      -- As a rule all are news: then their sums are known.
      news AS MATERIALIZED (
        SELECT count(*) = cardinality(\(append.accounts)) AND \(areDifferent) AS are_all FROM stored
      ),
      crossed AS (
        SELECT DISTINCT s.relay, g.hour, g.kind, g.mark
        FROM stored AS s
          JOIN unnest(
              \(append.accounts), \(append.devices), \(append.fingerprints), \(each: crossings.lazy.map { $0?.hour.number ?? 0 }),
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
