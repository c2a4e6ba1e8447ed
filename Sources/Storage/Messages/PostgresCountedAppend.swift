import RelayCore

extension PostgresStorage {
  /// As `insertStep`, and counts what of `envelopes` peers handed over as accepted: what is stored now, and not what was
  /// stored before. Apart from it, so that a relay's own traffic does not pay for it.
  static func countedInsertStep(
    _ envelopes: [Envelope], seenDay: PostgresMailboxDays.Day?
  ) -> PostgresStep {
    PostgresStep(
      .prepared(
        "append_counted",
        """
        WITH stored AS (
          INSERT INTO messages (account, device, sequence, day, type, source, source_device, relay, sent, message,
            content, fingerprint)
          SELECT account, device, sequence, day, type, source, source_device, relay, sent, message, content, fingerprint
          FROM (
            SELECT nextval('message_sequence') AS sequence, accepted.* FROM (
              SELECT i.account, i.device, c.today AS day, i.type, i.source, i.source_device, i.relay, i.sent, i.message,
                i.content, i.fingerprint
              FROM unnest($1::bigint[], $2::integer[], $3::smallint[], $4::bigint[], $5::integer[], $6::text[],
                  $7::bigint[], $8::bytea[], $9::bytea[], $10::uuid[]) WITH ORDINALITY
                AS i (account, device, type, source, source_device, relay, sent, message, content, fingerprint, place)
              CROSS JOIN (SELECT relay_arrival_day($14::date) AS today) AS c
              WHERE NOT EXISTS (
                  SELECT FROM acknowledged AS a
                  WHERE a.account = i.account AND a.device = i.device AND a.fingerprint = i.fingerprint
                    AND a.day >= relay_present_day($14::date) - 1)
                AND NOT EXISTS (
                  SELECT FROM messages AS m
                  WHERE m.account = i.account AND m.device = i.device AND m.fingerprint = i.fingerprint
                    AND m.day >= relay_present_day($14::date) - 1)
              ORDER BY i.place
            ) AS accepted
          ) AS numbered
          ORDER BY account, device, fingerprint
          ON CONFLICT (account, device, fingerprint, day) DO NOTHING
          RETURNING account, device, fingerprint, relay
        ),
        -- As a rule all are news: then their sums are known.
        news AS MATERIALIZED (
          SELECT count(*) = cardinality($1::bigint[]) AND $15::boolean AS are_all FROM stored
        ),
        crossed AS (
          SELECT DISTINCT s.relay, g.hour, g.kind, g.mark
          FROM stored AS s
            JOIN unnest($1::bigint[], $2::integer[], $10::uuid[], $11::integer[], $12::smallint[], $13::bigint[])
              AS g (account, device, fingerprint, hour, kind, mark) USING (account, device, fingerprint)
          WHERE NOT (SELECT are_all FROM news) AND s.relay IS NOT NULL AND g.mark IS NOT NULL
        )
        INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
        SELECT relay, hour, kind, 3, pg_backend_pid() % 16, crossings, low, high
        FROM (
          SELECT relay, hour, kind, count(*) AS crossings, sum(mark & 4294967295)::bigint AS low,
            sum((mark >> 32) & 4294967295)::bigint AS high
          FROM crossed GROUP BY relay, hour, kind
          UNION ALL
          SELECT relay, hour, kind, crossings, low, high
          FROM unnest($16::text[], $17::integer[], $18::smallint[], $19::bigint[], $20::bigint[], $21::bigint[])
            AS s (relay, hour, kind, crossings, low, high)
          WHERE (SELECT are_all FROM news)
        ) AS sums
        ORDER BY relay COLLATE "C", hour, kind
        ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
          SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
        """),
      PostgresParameters(
        reserving: envelopes.reduce(400) { $0 + 180 + ($1.message?.count ?? 0) + ($1.content?.count ?? 0) }
      ) {
        let crossings = envelopes.map(\.crossing)
        var sums = PostgresLedgerSums()
        var marks: Set<CrossingMark> = []
        var areDifferent = true
        for (envelope, crossing) in zip(envelopes, crossings) {
          guard let crossing, let relay = envelope.relay else { continue }
          sums.add(crossing, of: relay)
          areDifferent = marks.insert(crossing.mark).inserted && areDifferent
        }
        $0.add(envelopes)
        $0.add(integers: crossings.lazy.map { $0?.hour.number ?? 0 })
        $0.add(smallints: crossings.lazy.map { $0?.kind.rawValue ?? 0 })
        $0.add(optionalBigints: crossings.lazy.map { $0?.mark.bits })
        $0.add(integer: seenDay)
        $0.add(boolean: areDifferent)
        sums.add(to: &$0)
      })
  }
}
