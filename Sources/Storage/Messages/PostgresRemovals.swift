// What live connections had acknowledged: removed in batches that sessions of a whole process gather.

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
      .prepared(
        "queued",
        """
        SELECT p.account, p.device, p.sequence
        FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS p (account, device, sequence)
        CROSS JOIN LATERAL (
          SELECT FROM messages
          WHERE account = p.account AND device = p.device AND sequence >= p.sequence AND sequence <= p.sequence
            AND day >= $4::date
          ORDER BY sequence LIMIT 1
        ) AS m
        """),
      PostgresParameters(reserving: 200 + 36 * places.count) {
        $0.add(bigints: places.lazy.map(\.mailbox.account.column))
        $0.add(integers: places.lazy.map(\.mailbox.device.value))
        $0.add(bigints: places.lazy.map(\.sequence))
        $0.add(date: firstDay)
      })
  }

  /// Rows of account, device and sequence.
  private static func places(_ results: [PostgresResult]) throws(StoreError) -> Set<MailboxPlace> {
    var places: Set<MailboxPlace> = []
    for result in results {
      for index in result.rows {
        var row = result.cursor(row: index)
        let mailbox = DeviceAddress(try row.account(), try row.device())
        places.insert(MailboxPlace(mailbox, sequence: try row.bigint()))
      }
    }
    return places
  }

  /// Of one statement: some ten milliseconds.
  private static let removalsMax = 500

  /// What another transaction is just removing is passed over: it is not ours, and nobody waits for anybody. What was
  /// removed is remembered in one order everywhere, should two have the same to remember.
  ///
  /// Two things keep the plan from reading whole mailboxes where PostgreSQL believes a day to be empty, and one index to be
  /// as good as another: the order by the sequence within bounds that are equal leads to the index that has it, and what
  /// was locked is then deleted by its physical place, for which the limit says that there are few.
  private func removeStep(_ places: ArraySlice<MailboxPlace>, from firstDay: PostgresMailboxDays.Day)
    -> PostgresStep
  {
    PostgresStep(
      .prepared(
        "remove",
        """
        WITH found AS MATERIALIZED (
            SELECT m.day, m.ctid
            FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS p (account, device, sequence)
            CROSS JOIN LATERAL (
              SELECT day, ctid FROM messages
              WHERE account = p.account AND device = p.device AND sequence >= p.sequence AND sequence <= p.sequence
                AND day >= $4::date
              ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED
            ) AS m
            LIMIT $5::bigint
          ),
          removed AS (
            DELETE FROM messages AS m USING found AS f
            WHERE m.ctid = f.ctid AND m.day = f.day AND m.day >= $4::date
            RETURNING m.account, m.device, m.sequence, m.type, m.source, m.sent, m.fingerprint
          ),
          remembered AS (
            INSERT INTO acknowledged (account, device, fingerprint, day, source, sent)
            SELECT account, device, fingerprint, relay_arrival_day($7::date),
              CASE WHEN type < $6::smallint THEN source END, CASE WHEN type < $6::smallint THEN sent END
            FROM removed
            ORDER BY account, device, fingerprint
            ON CONFLICT DO NOTHING
          )
        SELECT account, device, sequence FROM removed
        """),
      PostgresParameters(reserving: 200 + 36 * places.count) {
        $0.add(bigints: places.lazy.map(\.mailbox.account.column))
        $0.add(integers: places.lazy.map(\.mailbox.device.value))
        $0.add(bigints: places.lazy.map(\.sequence))
        $0.add(date: firstDay)
        $0.add(bigint: Int64(places.count))
        $0.add(smallint: MessageType.receipt.rawValue)
        $0.add(integer: seenDay)
      })
  }
}
