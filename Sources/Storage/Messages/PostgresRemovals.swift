// Removals of acknowledged messages, and the receipts that go with them.

package import RelayCore
import RelayWork

extension PostgresStorage {
  /// Callers that wait share a statement, and so a commit: one gathers while another is under way. It goes with the
  /// other writes, and not with the messages: an append waits for nothing but appends.
  package func remove(_ removals: [MailboxRemoval]) async throws(StoreError) -> Set<MailboxPlace> {
    guard !removals.isEmpty else { return [] }
    guard let outcome = await self.removals.outcome(of: removals) else {
      throw .unavailable(reason: "too many acknowledged messages wait to be removed")
    }
    return try outcome.get()
  }

  /// How much may gather. A call is far smaller.
  static let removalBounds = BatchQueue<RemovalCalls.Member>.Bounds(
    batch: .init(items: removalsMax), waiting: .init(items: 20_000), countsUnderWay: true)

  /// - Parameters:
  ///   - batch: of each caller, his removals. A place that several name is the first one's.
  ///   - seenDay: `PostgresStorage.seenDay`.
  static func remove(
    _ batch: [RemovalCalls.Member], layout: PostgresLayout, days: PostgresMailboxDays,
    seenDay: PostgresMailboxDays.Day?, over connection: PostgresConnection, maintenance: PostgresMaintenance
  ) async {
    let remove = {
      (removals: [MailboxRemoval], removed: inout Set<MailboxPlace>) async throws(StoreError) in
      try await Self.remove(removals, adding: &removed, layout: layout, days: days, seenDay: seenDay) {
        steps throws(StoreError) in
        try await withDays(seenDay, maintenance) { () async throws(PostgresError) in
          try await connection.transaction(steps)
        }
      }
    }
    var removed: Set<MailboxPlace> = []
    var failure: StoreError?
    do throws(StoreError) {
      try await remove(batch.flatMap(\.call), &removed)
    } catch {
      failure = error
    }
    for member in batch {
      if let failure, failure.isOfPart, batch.count > 1 {
        // The store refuses something in the batch: it fails its own call and not its neighbours'.
        let others = member.call.filter { !removed.contains($0.place) }
        do throws(StoreError) {
          try await remove(others, &removed)
        } catch {
          member.end(with: .failure(error))
          continue
        }
      } else if let failure {
        member.end(with: .failure(failure))
        continue
      }
      let own = removed.intersection(member.call.lazy.map(\.place))
      removed.subtract(own)
      member.end(with: .success(own))
    }
  }

  /// Each statement is a transaction of its own. A receipt may have to wait for another transaction that stores the
  /// same one. Within a statement rows are stored in one order, and so nobody waits in a circle. Two statements of one
  /// transaction would not keep to it.
  /// - Parameter removed: what was removed, also when a later statement fails.
  private static func remove(
    _ removals: [MailboxRemoval], adding removed: inout Set<MailboxPlace>, layout: PostgresLayout,
    days: PostgresMailboxDays, seenDay: PostgresMailboxDays.Day?,
    run: ([PostgresStep]) async throws(StoreError) -> [PostgresResult]
  ) async throws(StoreError) {
    var named: Set<MailboxPlace> = []
    // As in `waiting`: a mailbox that was not read lately is looked for in every partition.
    var (recent, others): ([MailboxRemoval], [MailboxRemoval]) = ([], [])
    for removal in removals where named.insert(removal.place).inserted {
      let isRecent = !days.first(of: removal.place.mailbox).isWorthLearning
      if isRecent { recent.append(removal) } else { others.append(removal) }
    }
    for chunk in recent.chunks(of: removalsMax) + others.chunks(of: removalsMax) {
      let firstDay = chunk.lazy.map { days.first(of: $0.place.mailbox).day }.min() ?? 0
      let steps =
        switch layout {
        case .whole: [removeStep(chunk, from: firstDay, seenDay: seenDay)]
        case .distributed: [removedTable] + distributedRemoveSteps(chunk, from: firstDay, seenDay: seenDay)
        }
      let results = try await run(steps)
      removed.formUnion(try places(Array(results.dropFirst(layout == .whole ? 0 : 1).prefix(1))))
    }
  }

  package func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    let places = Array(Set(places))
    guard !places.isEmpty else { return [] }
    let layout = await layout
    let results = try await read(
      places.chunks(of: Self.removalsMax).map { batch in
        let firstDay = batch.lazy.map { self.days.first(of: $0.mailbox).day }.min() ?? 0
        return switch layout {
        case .whole: Self.queuedStep(batch, from: firstDay)
        case .distributed: Self.distributedQueuedStep(batch, from: firstDay)
        }
      })
    return try Self.places(results)
  }

  private static func queuedStep(_ places: ArraySlice<MailboxPlace>, from firstDay: PostgresMailboxDays.Day)
    -> PostgresStep
  {
    PostgresStep(
      "queued",
      """
      \(reserving: 200 + 36 * places.count)
      SELECT p.account, p.device, p.sequence
      FROM unnest(
          \(each: places.lazy.map(\.mailbox.account)), \(each: places.lazy.map(\.mailbox.device)),
          \(each: places.lazy.map(\.sequence)))
        AS p (account, device, sequence)
      CROSS JOIN LATERAL (
        SELECT FROM messages
        WHERE account = p.account AND device = p.device AND sequence >= p.sequence AND sequence <= p.sequence
          AND day >= \(PostgresDate(firstDay))
        ORDER BY sequence LIMIT 1
      ) AS m
      """)
  }

  /// Rows of account, device and sequence.
  private static func places(_ results: [PostgresResult]) throws(StoreError) -> Set<MailboxPlace> {
    var places: Set<MailboxPlace> = []
    for result in results { places.formUnion(try result.all(MailboxPlace.init(row:))) }
    return places
  }

  /// Removals in one statement: some ten milliseconds.
  private static let removalsMax = 500

  /// A row that another transaction is just removing is passed over: it is not ours, and no transaction waits for
  /// another. Removed messages are remembered in one order everywhere, and receipts stored in the order in which
  /// `append` stores, in case two transactions have the same to write.
  ///
  /// PostgreSQL may believe a day to be empty, and one index to be as good as another. Two things then keep the plan
  /// from reading whole mailboxes. The order by the sequence within equal bounds leads to the index that has it.
  /// Locked rows are deleted by their physical place, and the limit says that there are few.
  ///
  /// A removed row brings its own stretch of the receipts' devices along: nothing is joined. Receipts are numbered in
  /// the order of their messages. One that its mailbox has is left out before it is stored: if its reader is just
  /// removing it, that is not waited for. Order and OFFSET lead this look-up to the unique index by every plan.
  /// Receipts are not looked for among what was acknowledged: those of this relay are not remembered there.
  private static func removeStep(
    _ removals: ArraySlice<MailboxRemoval>, from firstDay: PostgresMailboxDays.Day, seenDay: PostgresMailboxDays.Day?
  ) -> PostgresStep {
    let firstDay = PostgresParameter(PostgresDate(firstDay))
    let receipt = PostgresParameter(MessageType.receipt.rawValue)
    let seenDay = PostgresParameter(seenDay.map(PostgresDate.init))
    let ends = removals.reduce(into: []) { $0.append(($0.last ?? 0) + Int32($1.receipt?.devices.count ?? 0)) }
    return PostgresStep(
      "remove",
      """
      \(reserving: 300 + 84 * removals.count)
      WITH found AS MATERIALIZED (
          SELECT m.day, m.ctid, p.receipts, p.ended, p.fingerprint
          FROM unnest(
              \(each: removals.lazy.map(\.place.mailbox.account)), \(each: removals.lazy.map(\.place.mailbox.device)),
              \(each: removals.lazy.map(\.place.sequence)),
              \(each: removals.lazy.map { Int32($0.receipt?.devices.count ?? 0) }), \(each: ends),
              \(each: removals.lazy.map(\.receipt?.fingerprint)))
            AS p (account, device, sequence, receipts, ended, fingerprint)
          CROSS JOIN LATERAL (
            SELECT day, ctid FROM messages
            WHERE account = p.account AND device = p.device AND sequence >= p.sequence AND sequence <= p.sequence
              AND day >= \(firstDay)
            ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED
          ) AS m
          LIMIT \(Int64(removals.count))
        ),
        removed AS (
          DELETE FROM messages AS m USING found AS f
          WHERE m.ctid = f.ctid AND m.day = f.day AND m.day >= \(firstDay)
          RETURNING m.account, m.device, m.sequence, m.type, m.source, m.relay, m.sent, m.fingerprint, f.receipts,
            f.ended, f.fingerprint AS receipt_fingerprint
        ),
        remembered AS (
          INSERT INTO acknowledged (account, device, fingerprint, day, source, sent)
          SELECT account, device, fingerprint, relay_arrival_day(\(seenDay)),
            CASE WHEN type < \(receipt) THEN source END, CASE WHEN type < \(receipt) THEN sent END
          FROM removed
          WHERE type <> \(receipt) OR relay IS NOT NULL
          ORDER BY account, device, fingerprint
          ON CONFLICT DO NOTHING
        ),
        receipted AS (
          INSERT INTO messages (account, device, sequence, day, type, source, source_device, sent, fingerprint)
          SELECT account, device, sequence, day, \(receipt), source, source_device, sent, fingerprint
          FROM (
            SELECT nextval('message_sequence') AS sequence, due.* FROM (
              SELECT r.source AS account, d.device, c.today AS day, r.account AS source, r.device AS source_device,
                r.sent, r.receipt_fingerprint AS fingerprint
              FROM removed AS r
              CROSS JOIN LATERAL unnest(
                (\(each: removals.flatMap { $0.receipt?.devices ?? [] }))[r.ended - r.receipts + 1 : r.ended])
                AS d (device)
              CROSS JOIN (SELECT relay_arrival_day(\(seenDay)) AS today) AS c
              WHERE NOT EXISTS (
                  SELECT FROM messages AS m
                  WHERE m.account = r.source AND m.device = d.device AND m.fingerprint >= r.receipt_fingerprint
                    AND m.fingerprint <= r.receipt_fingerprint AND m.day >= relay_present_day(\(seenDay)) - 1
                  ORDER BY m.fingerprint OFFSET 0)
              ORDER BY r.sequence
            ) AS due
          ) AS numbered
          ORDER BY account, device, fingerprint
          ON CONFLICT (account, device, fingerprint, day) DO NOTHING
        )
      SELECT account, device, sequence FROM removed
      """)
  }
}

extension MailboxPlace {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let mailbox = DeviceAddress(try row.account(), try row.device())
    self.init(mailbox, sequence: try row.bigint())
  }
}
