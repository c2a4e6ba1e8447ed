package import RelayCore

// The sequence is taken when a row is inserted, and the row is seen when its transaction commits. So two processes
// that append to one mailbox at the same instant may become visible in either order: a reader that keeps a position
// across reads has to look again below it. Live readers keep none: they name what they hold (`waiting`), so that a row
// which shows late with a lower sequence comes all the same. Of two messages, one of which was accepted before the other
// was submitted, no reader sees the second before the first: its sequence is higher, and where it shows, so does the
// first.

extension PostgresStorage {
  package func append(_ envelopes: [Envelope]) async throws(StoreError) { try await batcher.append(envelopes) }

  package func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError)
    -> [QueuedEnvelope]
  {
    let (firstDay, isWorthLearning) = days.first(of: mailbox)
    var steps = [Self.pendingStep(mailbox, from: firstDay, after: after, limit: limit)]
    let mustLearn = isWorthLearning && after == 0
    if mustLearn { steps.append(todayStep) }
    let results = try await read(steps)
    guard let result = results.first else { return [] }
    var envelopes: [QueuedEnvelope] = []
    envelopes.reserveCapacity(result.rowCount)
    var oldest: PostgresMailboxDays.Day?
    for index in result.rows {
      var row = result.cursor(row: index)
      let day = try row.date()
      oldest = oldest ?? day
      envelopes.append(try Self.envelope(&row, in: mailbox))
    }
    if mustLearn, let today = results.last {
      var row = today.cursor(row: 0)
      days.learned(mailbox, oldest: oldest, today: try row.date())
    }
    return envelopes
  }

  private static func pendingStep(
    _ mailbox: DeviceAddress, from firstDay: PostgresMailboxDays.Day, after: Int64, limit: Int
  ) -> PostgresStep {
    PostgresStep(
      .prepared(
        "pending",
        """
        SELECT day, sequence, type, source, source_device, relay, sent, message, content, fingerprint
        FROM messages
        WHERE account = $1::bigint AND device = $2::integer AND day >= $3::date AND sequence > $4::bigint
        ORDER BY sequence LIMIT $5::bigint
        """),
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(date: firstDay)
        $0.add(bigint: after)
        $0.add(bigint: Int64(limit))
      })
  }

  /// At most a day beyond the last seen one: what is learned of a mailbox while the clock is ahead must hold when it is right
  /// again, and messages arrive on the days that it has left out.
  var todayStep: PostgresStep {
    PostgresStep(
      .prepared("today", "SELECT least((now() AT TIME ZONE 'UTC')::date, $1::date)"),
      PostgresParameters { $0.add(integer: seenDay.map { $0 + 1 }) })
  }

  package func acknowledge(source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress)
    async throws(StoreError) -> QueuedEnvelope?
  {
    // What another acknowledgement is just removing is passed over: it is gone. Deleted as in `remove`.
    let result = try await sharedWrite(
      .prepared(
        "acknowledge",
        """
        WITH oldest AS MATERIALIZED (
            SELECT day, ctid FROM messages
            WHERE account = $1::bigint AND device = $2::integer AND source = $3::bigint AND sent = $4::bigint
              AND day >= $5::date
            ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED
          ),
          removed AS (
            DELETE FROM messages AS m USING oldest AS o
            WHERE m.ctid = o.ctid AND m.day = o.day AND m.day >= $5::date
            RETURNING m.sequence, m.type, m.source, m.source_device, m.relay, m.sent, m.message, m.content,
              m.fingerprint
          ),
          remembered AS (
            INSERT INTO acknowledged (account, device, fingerprint, day, source, sent)
            SELECT $1::bigint, $2::integer, fingerprint, relay_arrival_day($7::date),
              CASE WHEN type < $6::smallint THEN source END, CASE WHEN type < $6::smallint THEN sent END
            FROM removed
            ON CONFLICT DO NOTHING
          )
        SELECT sequence, type, source, source_device, relay, sent, message, content, fingerprint FROM removed
        """),
      PostgresParameters {
        $0.add(account: mailbox.account)
        $0.add(device: mailbox.device)
        $0.add(account: source)
        $0.add(bigint: timestamp.millis)
        $0.add(date: days.first(of: mailbox).day)
        $0.add(smallint: MessageType.receipt.rawValue)
        $0.add(integer: seenDay)
      })
    guard result.rowCount > 0 else { return nil }
    var row = result.cursor(row: 0)
    return try Self.envelope(&row, in: mailbox)
  }

  /// From the columns behind `day`, in the order in which every SELECT here names them.
  static func envelope(_ row: inout PostgresRow, in mailbox: DeviceAddress) throws(StoreError)
    -> QueuedEnvelope
  {
    let sequence = try row.bigint()
    let type = try row.required(MessageType(rawValue: row.smallint()))
    return QueuedEnvelope(
      sequence: sequence,
      envelope: Envelope(
        destination: mailbox, type: type, source: DeviceAddress(try row.account(), try row.device()),
        relay: try row.optionalRelayName(), timestamp: try row.timestamp(), message: row.optionalBytes(),
        content: row.optionalBytes(), fingerprint: try row.fingerprint()))
  }
}

// MARK: - Writing a batch

extension PostgresStorage {
  /// Inserts `envelopes` in their order as one transaction. Makes the day's partitions when nobody did.
  static func insert(
    _ envelopes: [Envelope], seenDay: PostgresMailboxDays.Day?, over connection: PostgresConnection,
    maintenance: PostgresMaintenance
  ) async throws(StoreError) {
    let step =
      envelopes.contains { $0.mark != nil }
      ? countedInsertStep(envelopes, seenDay: seenDay) : insertStep(envelopes, seenDay: seenDay)
    do throws(PostgresError) {
      _ = try await connection.write(step.statement, step.parameters)
    } catch .refused(.checkViolation, _) {
      // "No partition of relation found for row": the table has no other check.
      try await maintenance.run { connection throws(StoreError) in
        try await PostgresPartitions.createMissing(seenDay: seenDay, over: connection)
      }
      do throws(PostgresError) {
        _ = try await connection.write(step.statement, step.parameters)
      } catch {
        throw error.storeError
      }
    } catch {
      throw error.storeError
    }
  }

  /// An envelope is left out when its mailbox took it in, or had it acknowledged, today or yesterday: to look into each
  /// kept day would cost almost four times as much. Mailbox and acknowledgements are looked at as of one moment, so that what is
  /// just moved from the one to the other is seen in one of them. What is not committed yet is the conflict clause's
  /// business: it waits for whoever writes the same fingerprint. So that no two batches wait for each other, rows are
  /// written in one order everywhere, and numbered in the caller's.
  ///
  /// Nothing arrives on a day before the last seen one, and what was taken in is looked for from that day on as well: the
  /// clock may have stepped back, or ahead.
  private static func insertStep(_ envelopes: [Envelope], seenDay: PostgresMailboxDays.Day?) -> PostgresStep {
    PostgresStep(
      .prepared(
        "append",
        """
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
            CROSS JOIN (SELECT relay_arrival_day($11::date) AS today) AS c
            WHERE NOT EXISTS (
                SELECT FROM acknowledged AS a
                WHERE a.account = i.account AND a.device = i.device AND a.fingerprint = i.fingerprint
                  AND a.day >= relay_present_day($11::date) - 1)
              AND NOT EXISTS (
                SELECT FROM messages AS m
                WHERE m.account = i.account AND m.device = i.device AND m.fingerprint = i.fingerprint
                  AND m.day >= relay_present_day($11::date) - 1)
            ORDER BY i.place
          ) AS accepted
        ) AS numbered
        ORDER BY account, device, fingerprint
        ON CONFLICT (account, device, fingerprint, day) DO NOTHING
        """),
      PostgresParameters(
        reserving: envelopes.reduce(400) { $0 + 140 + ($1.message?.count ?? 0) + ($1.content?.count ?? 0) }
      ) {
        $0.add(envelopes)
        $0.add(integer: seenDay)
      })
  }
}

extension PostgresParameters {
  /// `$1` to `$10` of the statements that append.
  mutating func add(_ envelopes: [Envelope]) {
    add(bigints: envelopes.lazy.map(\.destination.account.column))
    add(integers: envelopes.lazy.map(\.destination.device.value))
    add(smallints: envelopes.lazy.map(\.type.rawValue))
    add(bigints: envelopes.lazy.map(\.source.account.column))
    add(integers: envelopes.lazy.map(\.source.device.value))
    add(texts: envelopes.lazy.map { $0.relay?.text })
    add(bigints: envelopes.lazy.map(\.timestamp.millis))
    add(byteas: envelopes.lazy.map(\.message))
    add(byteas: envelopes.lazy.map(\.content))
    add(uuids: envelopes.lazy.map(\.fingerprint))
  }
}
