package import RelayCore

// Rows are written in one order everywhere, marks before sums, so that no two of these wait for each other. Each statement
// says itself whether its transaction waits for the disk: a step before it would cost as much as the rows of a message.

extension PostgresStorage {
  /// Without waiting for the disk, which takes longer than all the rest: what a crash of the server takes with it shows as
  /// a difference of as much.
  package func record(_ record: LedgerRecord) async throws(StoreError) {
    guard !record.crossings.isEmpty, let step = step(record, waitsForDisk: false) else { return }
    if let news = LedgerNews(record), try await isCounted(news) { return }
    _ = try await write([step])
  }

  package func ledger(of relay: RelayName, in hours: ClosedRange<LedgerHour>) async throws(StoreError) -> [LedgerEntry]
  {
    let result = try await read(
      .prepared(
        "ledger",
        """
        SELECT l.hour, l.kind, e.event, sum(l.crossings)::bigint, (sum(l.low) % 18446744073709551616)::text,
          (sum(l.high) % 4294967296)::bigint
        FROM loss_ledger AS l
          CROSS JOIN unnest(CASE WHEN l.event = $4::smallint THEN '{0,1}'::smallint[] ELSE ARRAY[l.event] END) AS e (event)
        WHERE l.peer = $1::text AND l.hour BETWEEN $2::integer AND $3::integer
        GROUP BY l.hour, l.kind, e.event ORDER BY l.hour, l.kind, e.event
        """),
      PostgresParameters {
        $0.add(text: relay.text)
        $0.add(integer: hours.lowerBound.number)
        $0.add(integer: hours.upperBound.number)
        $0.add(smallint: Self.answeredAtOnce)
      })
    var entries: [LedgerEntry] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      let hour = LedgerHour(number: try row.integer())
      let kind = try row.required(Crossing.Kind(rawValue: row.smallint()))
      let event = try row.required(LedgerRecord.Event(rawValue: row.smallint()))
      let count = try row.bigint()
      let low = try row.required(UInt64(try row.text()))
      let high = UInt64(bitPattern: try row.bigint())
      entries.append(
        LedgerEntry(hour: hour, kind: kind, event: event, sum: LedgerSum(count: count, digest: low &+ high << 32)))
    }
    return entries
  }

  /// - Parameter waitsForDisk: whether the transaction that it belongs to does.
  /// - Returns: nil for `.accepted`, which `append` counts.
  func step(_ record: LedgerRecord, waitsForDisk: Bool) -> PostgresStep? {
    switch record.event {
    case .handedOver: PostgresStep(Self.handedOver, parameters(record, waitsForDisk, seenDay))
    case .answered: PostgresStep(Self.answered, parameters(record, waitsForDisk, seenDay))
    case .refused: PostgresStep(Self.refused, parameters(record, waitsForDisk))
    case .turnedDown:
      PostgresStep(
        Self.turnedDown,
        PostgresParameters {
          $0.add(record)
          $0.add(boolean: waitsForDisk)
          $0.add(integer: LedgerLife.hours)
        })
    case .accepted: nil
    }
  }

  private func parameters(
    _ record: LedgerRecord, _ waitsForDisk: Bool, _ day: PostgresMailboxDays.Day?? = nil
  ) -> PostgresParameters {
    PostgresParameters(reserving: 64 + record.crossings.count * 44) {
      $0.add(record)
      $0.add(boolean: waitsForDisk)
      $0.add(tagsOf: record)
      if let day { $0.add(integer: day) }
    }
  }

  private static let handedOver = PostgresStatement.prepared(
    "ledger_handed_over",
    """
    WITH fresh AS (
      INSERT INTO crossings (kind, hour, tag, mark, noted, settled)
      SELECT kind, hour, tag, mark, relay_present_day($7::date), false
      FROM unnest($2::integer[], $3::bigint[], $4::smallint[], $6::bigint[]) AS g (hour, mark, kind, tag)
      WHERE coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT $5::boolean), 'on') <> ''
      ORDER BY kind, hour, tag, mark
      ON CONFLICT DO NOTHING
      RETURNING hour, mark, kind
    )
    INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
    SELECT $1::text, hour, kind, 0, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
      sum((mark >> 32) & 4294967295)::bigint
    FROM fresh GROUP BY hour, kind ORDER BY hour, kind
    ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
      SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
    """)

  /// What was not noted when it was handed over, because the store was away, is handed over too.
  private static let answered = PostgresStatement.prepared(
    "ledger_answered",
    """
    WITH settled AS (
      INSERT INTO crossings AS c (kind, hour, tag, mark, noted, settled)
      SELECT DISTINCT ON (kind, hour, tag, mark) kind, hour, tag, mark, relay_present_day($7::date), true
      FROM unnest($2::integer[], $3::bigint[], $4::smallint[], $6::bigint[]) AS g (hour, mark, kind, tag)
      WHERE coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT $5::boolean), 'on') <> ''
      ORDER BY kind, hour, tag, mark
      ON CONFLICT (kind, hour, tag, mark) DO UPDATE SET settled = true WHERE NOT c.settled
      RETURNING hour, mark, kind, xmax = 0 AS is_new
    ),
    sums AS (
      SELECT hour, kind, is_new, count(*) AS crossings, sum(mark & 4294967295) AS low,
        sum((mark >> 32) & 4294967295) AS high
      FROM settled GROUP BY hour, kind, is_new
    )
    INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
    SELECT $1::text, hour, kind, event, pg_backend_pid() % 16, sum(crossings)::bigint, sum(low)::bigint,
      sum(high)::bigint
    FROM sums JOIN (VALUES (0), (1)) AS e (event) ON is_new OR event = 1
    GROUP BY hour, kind, event ORDER BY hour, kind, event
    ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
      SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
    """)

  /// Forgotten: handed over again, it is counted again.
  private static let refused = PostgresStatement.prepared(
    "ledger_refused",
    """
    WITH unsettled AS MATERIALIZED (
      SELECT c.kind, c.hour, c.tag, c.mark
      FROM crossings AS c
      WHERE (c.kind, c.hour, c.tag, c.mark) IN (
          SELECT kind, hour, tag, mark
          FROM unnest($2::integer[], $3::bigint[], $4::smallint[], $6::bigint[]) AS g (hour, mark, kind, tag)
          WHERE coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT $5::boolean), 'on') <> '')
        AND NOT c.settled
      ORDER BY c.kind, c.hour, c.tag, c.mark FOR UPDATE
    ),
    gone AS (
      DELETE FROM crossings AS c USING unsettled AS u
      WHERE c.kind = u.kind AND c.hour = u.hour AND c.tag = u.tag AND c.mark = u.mark
      RETURNING c.hour, c.mark, c.kind
    )
    INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
    SELECT $1::text, hour, kind, 2, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
      sum((mark >> 32) & 4294967295)::bigint
    FROM gone GROUP BY hour, kind ORDER BY hour, kind
    ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
      SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
    """)

  /// What a peer says of hours that are not kept makes no rows.
  private static let turnedDown = PostgresStatement.prepared(
    "ledger_turned_down",
    """
    INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
    SELECT $1::text, hour, kind, 4, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
      sum((mark >> 32) & 4294967295)::bigint
    FROM unnest($2::integer[], $3::bigint[], $4::smallint[]) AS g (hour, mark, kind)
    WHERE abs(hour::bigint - (extract(epoch FROM now()) / 3600)::bigint) <= $6::integer
      AND coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT $5::boolean), 'on') <> ''
    GROUP BY hour, kind ORDER BY hour, kind
    ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
      SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
    """)

  /// Forgets what is past its time, some at a time.
  /// - Parameters:
  ///   - past: the present as the judge of clocks allows it.
  ///   - future: never behind the last seen time: by it hours are ahead.
  func forgetOldLedger(at past: Timestamp, future: Timestamp) async throws(StoreError) {
    let ahead = LedgerHour(of: future).adding(hours: LedgerLife.hoursAhead).number
    for kind in Crossing.Kind.allCases {
      let days = LedgerLife.markDays(of: kind)
      let last = LedgerHour(of: past).adding(hours: -days * 24).number
      try await forgetMarks(of: kind, whose: "hour < $2::integer", last, notedBefore: days, before: past)
      try await forgetMarks(of: kind, whose: "hour > $2::integer", ahead, notedBefore: days, before: past)
    }
    _ = try await writeBulk([
      PostgresStep(
        .prepared("forget_old_ledger", "DELETE FROM loss_ledger WHERE hour < $1::integer OR hour > $2::integer"),
        PostgresParameters {
          $0.add(integer: LedgerHour(of: past).adding(hours: -LedgerLife.hours).number)
          $0.add(integer: ahead)
        })
    ])
  }

  /// - Parameter condition: on the hour, by which they are found.
  private func forgetMarks(
    of kind: Crossing.Kind, whose condition: String, _ hour: Int32, notedBefore days: Int32, before past: Timestamp
  ) async throws(StoreError) {
    let chunkRows: Int64 = 10_000
    while true {
      let results = try await writeBulk([
        PostgresStep(
          .once(
            """
            WITH old AS MATERIALIZED (
              SELECT kind, hour, tag, mark FROM crossings
              WHERE kind = $1::smallint AND \(condition)
                AND noted < (to_timestamp($3::bigint / 1000) AT TIME ZONE 'UTC')::date - $4::integer
              ORDER BY kind, hour, tag, mark LIMIT $5::bigint FOR UPDATE SKIP LOCKED
            )
            DELETE FROM crossings AS c USING old AS o
            WHERE c.kind = o.kind AND c.hour = o.hour AND c.tag = o.tag AND c.mark = o.mark
            """),
          PostgresParameters {
            $0.add(smallint: kind.rawValue)
            $0.add(integer: hour)
            $0.add(bigint: past.millis)
            $0.add(integer: days)
            $0.add(bigint: chunkRows)
          })
      ])
      guard let removed = results.first?.affectedRows, removed >= Int(chunkRows) else { return }
    }
  }
}

extension PostgresParameters {
  /// `$1` to `$4` of the ledger's statements.
  mutating func add(_ record: LedgerRecord) {
    add(text: record.relay.text)
    add(integers: record.crossings.lazy.map(\.hour.number))
    add(bigints: record.crossings.lazy.map(\.mark.bits))
    add(smallints: record.crossings.lazy.map(\.kind.rawValue))
  }

  /// 0 where there is none.
  mutating func add(tagsOf record: LedgerRecord) {
    add(bigints: record.crossings.lazy.map { $0.tag?.bits ?? 0 })
  }
}
