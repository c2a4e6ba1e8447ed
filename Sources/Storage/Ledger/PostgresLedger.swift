package import RelayCore

// Rows are written in one order everywhere, marks before sums, so that no two of these wait for each other. Each
// statement says itself whether its transaction waits for the disk: a step before it would cost as much as the rows of
// a message.

extension PostgresStorage {
  /// Without waiting for the disk, which takes longer than all the rest: what a crash of the server takes with it
  /// shows as a difference of as much.
  package func record(_ record: LedgerRecord) async throws(StoreError) {
    guard !record.crossings.isEmpty, let step = step(record, waitsForDisk: false) else { return }
    if let news = LedgerNews(record), try await isCounted(news) { return }
    _ = try await write([step])
  }

  package func ledger(of relay: RelayName, in hours: ClosedRange<LedgerHour>) async throws(StoreError) -> [LedgerEntry]
  {
    let result = try await read(
      "ledger",
      """
      SELECT l.hour, l.kind, e.event, sum(l.crossings)::bigint, (sum(l.low) % 18446744073709551616)::text,
        (sum(l.high) % 4294967296)::bigint
      FROM loss_ledger AS l
        CROSS JOIN unnest(
          CASE WHEN l.event = \(Self.answeredAtOnce) THEN '{0,1}'::smallint[] ELSE ARRAY[l.event] END) AS e (event)
      WHERE l.peer = \(relay) AND l.hour BETWEEN \(hours.lowerBound.number) AND \(hours.upperBound.number)
      GROUP BY l.hour, l.kind, e.event ORDER BY l.hour, l.kind, e.event
      """)
    return try result.all(LedgerEntry.init(row:))
  }

  /// - Parameter waitsForDisk: whether the transaction that it belongs to does.
  /// - Returns: nil for `.accepted`, which `append` counts.
  func step(_ record: LedgerRecord, waitsForDisk: Bool) -> PostgresStep? {
    switch record.event {
    case .handedOver: handedOver(record, waitsForDisk)
    case .answered: answered(record, waitsForDisk)
    case .refused: Self.refused(record, waitsForDisk)
    case .turnedDown: Self.turnedDown(record, waitsForDisk)
    case .accepted: nil
    }
  }

  private func handedOver(_ record: LedgerRecord, _ waitsForDisk: Bool) -> PostgresStep {
    PostgresStep(
      "ledger_handed_over",
      """
      \(reserving: 64 + record.crossings.count * 44)
      WITH fresh AS (
        INSERT INTO crossings (kind, hour, tag, mark, noted, settled)
        SELECT kind, hour, tag, mark, relay_present_day(\(seenDay.map(PostgresDate.init))), false
        FROM unnest(
            \(each: record.crossings.lazy.map(\.hour.number)), \(each: record.crossings.lazy.map(\.mark.bits)),
            \(each: record.crossings.lazy.map(\.kind.rawValue)),
            \(each: record.crossings.lazy.map { $0.tag?.bits ?? 0 }))
          AS g (hour, mark, kind, tag)
        WHERE coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT \(waitsForDisk)), 'on') <> ''
        ORDER BY kind, hour, tag, mark
        ON CONFLICT DO NOTHING
        RETURNING hour, mark, kind
      )
      INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
      SELECT \(record.relay), hour, kind, 0, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
        sum((mark >> 32) & 4294967295)::bigint
      FROM fresh GROUP BY hour, kind ORDER BY hour, kind
      ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
        SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
      """)
  }

  /// If the store was away when a crossing was handed over, that was not noted. It counts as handed over now.
  private func answered(_ record: LedgerRecord, _ waitsForDisk: Bool) -> PostgresStep {
    PostgresStep(
      "ledger_answered",
      """
      \(reserving: 64 + record.crossings.count * 44)
      WITH settled AS (
        INSERT INTO crossings AS c (kind, hour, tag, mark, noted, settled)
        SELECT DISTINCT ON (kind, hour, tag, mark) kind, hour, tag, mark,
          relay_present_day(\(seenDay.map(PostgresDate.init))), true
        FROM unnest(
            \(each: record.crossings.lazy.map(\.hour.number)), \(each: record.crossings.lazy.map(\.mark.bits)),
            \(each: record.crossings.lazy.map(\.kind.rawValue)),
            \(each: record.crossings.lazy.map { $0.tag?.bits ?? 0 }))
          AS g (hour, mark, kind, tag)
        WHERE coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT \(waitsForDisk)), 'on') <> ''
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
      SELECT \(record.relay), hour, kind, event, pg_backend_pid() % 16, sum(crossings)::bigint, sum(low)::bigint,
        sum(high)::bigint
      FROM sums JOIN (VALUES (0), (1)) AS e (event) ON is_new OR event = 1
      GROUP BY hour, kind, event ORDER BY hour, kind, event
      ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
        SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
      """)
  }

  /// Forgotten: handed over again, it is counted again.
  private static func refused(_ record: LedgerRecord, _ waitsForDisk: Bool) -> PostgresStep {
    PostgresStep(
      "ledger_refused",
      """
      \(reserving: 64 + record.crossings.count * 44)
      WITH unsettled AS MATERIALIZED (
        SELECT c.kind, c.hour, c.tag, c.mark
        FROM crossings AS c
        WHERE (c.kind, c.hour, c.tag, c.mark) IN (
            SELECT kind, hour, tag, mark
            FROM unnest(
                \(each: record.crossings.lazy.map(\.hour.number)), \(each: record.crossings.lazy.map(\.mark.bits)),
                \(each: record.crossings.lazy.map(\.kind.rawValue)),
                \(each: record.crossings.lazy.map { $0.tag?.bits ?? 0 }))
              AS g (hour, mark, kind, tag)
            WHERE coalesce(
              (SELECT set_config('synchronous_commit', 'off', true) WHERE NOT \(waitsForDisk)), 'on') <> '')
          AND NOT c.settled
        ORDER BY c.kind, c.hour, c.tag, c.mark FOR UPDATE
      ),
      gone AS (
        DELETE FROM crossings AS c USING unsettled AS u
        WHERE c.kind = u.kind AND c.hour = u.hour AND c.tag = u.tag AND c.mark = u.mark
        RETURNING c.hour, c.mark, c.kind
      )
      INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
      SELECT \(record.relay), hour, kind, 2, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
        sum((mark >> 32) & 4294967295)::bigint
      FROM gone GROUP BY hour, kind ORDER BY hour, kind
      ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
        SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
      """)
  }

  /// A peer's word on hours that are not kept makes no rows.
  private static func turnedDown(_ record: LedgerRecord, _ waitsForDisk: Bool) -> PostgresStep {
    PostgresStep(
      "ledger_turned_down",
      """
      \(reserving: 64 + record.crossings.count * 44)
      INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
      SELECT \(record.relay), hour, kind, 4, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
        sum((mark >> 32) & 4294967295)::bigint
      FROM unnest(
          \(each: record.crossings.lazy.map(\.hour.number)), \(each: record.crossings.lazy.map(\.mark.bits)),
          \(each: record.crossings.lazy.map(\.kind.rawValue)))
        AS g (hour, mark, kind)
      WHERE abs(hour::bigint - (extract(epoch FROM now()) / 3600)::bigint) <= \(LedgerLife.hours)
        AND coalesce((SELECT set_config('synchronous_commit', 'off', true) WHERE NOT \(waitsForDisk)), 'on') <> ''
      GROUP BY hour, kind ORDER BY hour, kind
      ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
        SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
      """)
  }

  /// Forgets what is past its time, some at a time.
  /// - Parameters:
  ///   - past: the present as the judge of clocks allows it.
  ///   - future: never behind the last seen time: by it hours are ahead.
  func forgetOldLedger(at past: Timestamp, future: Timestamp) async throws(StoreError) {
    let ahead = LedgerHour(of: future).adding(hours: LedgerLife.hoursAhead).number
    for kind in Crossing.Kind.allCases {
      let days = LedgerLife.markDays(of: kind)
      let last = LedgerHour(of: past).adding(hours: -days * 24).number
      try await forgetMarks(of: kind, whoseHour: "<", last, notedBefore: days, before: past)
      try await forgetMarks(of: kind, whoseHour: ">", ahead, notedBefore: days, before: past)
    }
    let last = LedgerHour(of: past).adding(hours: -LedgerLife.hours).number
    _ = try await writeBulk([
      PostgresStep("forget_old_ledger", "DELETE FROM loss_ledger WHERE hour < \(last) OR hour > \(ahead)")
    ])
  }

  /// - Parameter comparison: of a mark's hour with `hour`, by which they are found.
  private func forgetMarks(
    of kind: Crossing.Kind, whoseHour comparison: StaticString, _ hour: Int32, notedBefore days: Int32,
    before past: Timestamp
  ) async throws(StoreError) {
    let chunkRows: Int64 = 10_000
    while true {
      let results = try await writeBulk([
        PostgresStep(
          once: """
            WITH old AS MATERIALIZED (
              SELECT kind, hour, tag, mark FROM crossings
              WHERE kind = \(kind.rawValue) AND hour \(fragment: comparison) \(hour)
                AND noted < (to_timestamp(\(past) / 1000) AT TIME ZONE 'UTC')::date - \(days)
              ORDER BY kind, hour, tag, mark LIMIT \(chunkRows) FOR UPDATE SKIP LOCKED
            )
            DELETE FROM crossings AS c USING old AS o
            WHERE c.kind = o.kind AND c.hour = o.hour AND c.tag = o.tag AND c.mark = o.mark
            """)
      ])
      guard let removed = results.first?.affectedRows, removed >= Int(chunkRows) else { return }
    }
  }
}

extension LedgerEntry {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let hour = LedgerHour(number: try row.integer())
    let kind = try row.required(Crossing.Kind(rawValue: row.smallint()))
    let event = try row.required(LedgerRecord.Event(rawValue: row.smallint()))
    let count = try row.bigint()
    let low = try row.required(UInt64(try row.text()))
    let high = UInt64(bitPattern: try row.bigint())
    self.init(hour: hour, kind: kind, event: event, sum: LedgerSum(count: count, digest: low &+ high << 32))
  }
}

extension PostgresStorage {
  package func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool {
    let result = try await read(
      "was_handed_over",
      """
      SELECT EXISTS (
        SELECT FROM crossings
        WHERE kind = 0 AND hour = \(hour.number) AND tag = \(tag.bits)
          AND noted >= relay_present_day(\(seenDay.map(PostgresDate.init))) - \(Int32(WireLimits.receiptDays)))
      """)
    var row = result.cursor(row: 0)
    return try row.boolean()
  }
}
