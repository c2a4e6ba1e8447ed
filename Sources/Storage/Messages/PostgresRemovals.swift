// Removals of messages that live connections had acknowledged, in batches that the sessions of a process gather.

package import RelayCore

extension PostgresStorage {
  /// With the writes that share a commit, and not with the messages: an append waits for nothing but appends.
  package func remove(_ places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    let places = Array(Set(places))
    guard !places.isEmpty else { return [] }
    // As in `waiting`: a mailbox that was not read lately is looked for in every partition.
    var (recent, others): ([MailboxPlace], [MailboxPlace]) = ([], [])
    for place in places {
      if days.first(of: place.mailbox).isWorthLearning { others.append(place) } else { recent.append(place) }
    }
    let batches = recent.chunks(of: Self.removalsMax) + others.chunks(of: Self.removalsMax)
    let results = try await sharedWrite(
      batches.map { batch in
        removeStep(batch, from: batch.lazy.map { self.days.first(of: $0.mailbox).day }.min() ?? 0)
      })
    return try Self.places(results)
  }

  package func queued(among places: [MailboxPlace]) async throws(StoreError) -> Set<MailboxPlace> {
    let places = Array(Set(places))
    guard !places.isEmpty else { return [] }
    let results = try await read(
      places.chunks(of: Self.removalsMax).map { batch in
        Self.queuedStep(batch, from: batch.lazy.map { self.days.first(of: $0.mailbox).day }.min() ?? 0)
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
  /// another. Removed messages are remembered in one order everywhere, in case two transactions have the same to
  /// remember.
  ///
  /// PostgreSQL may believe a day to be empty, and one index to be as good as another. Two things then keep the plan
  /// from reading whole mailboxes. The order by the sequence within equal bounds leads to the index that has it.
  /// Locked rows are deleted by their physical place, and the limit says that there are few.
  private func removeStep(_ places: ArraySlice<MailboxPlace>, from firstDay: PostgresMailboxDays.Day)
    -> PostgresStep
  {
    let firstDay = PostgresParameter(PostgresDate(firstDay))
    let receipt = PostgresParameter(MessageType.receipt.rawValue)
    return PostgresStep(
      "remove",
      """
      \(reserving: 200 + 36 * places.count)
      WITH found AS MATERIALIZED (
          SELECT m.day, m.ctid
          FROM unnest(
              \(each: places.lazy.map(\.mailbox.account)), \(each: places.lazy.map(\.mailbox.device)),
              \(each: places.lazy.map(\.sequence)))
            AS p (account, device, sequence)
          CROSS JOIN LATERAL (
            SELECT day, ctid FROM messages
            WHERE account = p.account AND device = p.device AND sequence >= p.sequence AND sequence <= p.sequence
              AND day >= \(firstDay)
            ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED
          ) AS m
          LIMIT \(Int64(places.count))
        ),
        removed AS (
          DELETE FROM messages AS m USING found AS f
          WHERE m.ctid = f.ctid AND m.day = f.day AND m.day >= \(firstDay)
          RETURNING m.account, m.device, m.sequence, m.type, m.source, m.sent, m.fingerprint
        ),
        remembered AS (
          INSERT INTO acknowledged (account, device, fingerprint, day, source, sent)
          SELECT account, device, fingerprint, relay_arrival_day(\(seenDay.map(PostgresDate.init))),
            CASE WHEN type < \(receipt) THEN source END, CASE WHEN type < \(receipt) THEN sent END
          FROM removed
          ORDER BY account, device, fingerprint
          ON CONFLICT DO NOTHING
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
