package import RelayCore

// The sequence is taken when a row is inserted, and the row is seen when its transaction commits. So two processes
// that append to one mailbox at the same instant may become visible in either order. A reader that keeps a position
// across reads has to look again below it.
//
// Live readers keep no position: they name the envelopes that they hold (`waiting`). So a row that shows late with a
// lower sequence comes all the same. If one message was accepted before another was submitted, no reader sees the
// second before the first: its sequence is higher, and when it shows, so does the first. In the same way the append of
// the second sees the first: a connection that gets the second without a read is told of it (`AppendedPlace.others`).

extension PostgresStorage {
  package func append(_ envelopes: [Envelope], watch: (any AppendWatch)?) async throws(StoreError) {
    try await batcher.append(envelopes, watch: watch)
  }

  package func pending(in mailbox: DeviceAddress, after: Int64, limit: Int) async throws(StoreError)
    -> [QueuedEnvelope]
  {
    let (firstDay, isWorthLearning) = days.first(of: mailbox)
    var steps = [Self.pendingStep(mailbox, from: firstDay, after: after, limit: limit)]
    let mustLearn = isWorthLearning && after == 0
    if mustLearn { steps.append(todayStep) }
    let results = try await read(steps)
    guard let result = results.first else { return [] }
    var oldest: PostgresMailboxDays.Day?
    let envelopes = try result.all { (row) throws(StoreError) in
      let day = try row.date()
      oldest = oldest ?? day
      return try QueuedEnvelope(row: &row, in: mailbox)
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
      "pending",
      """
      SELECT day, sequence, \(MessageColumns.self), fingerprint
      FROM messages
      WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND day >= \(PostgresDate(firstDay))
        AND sequence > \(after)
      ORDER BY sequence LIMIT \(Int64(limit))
      """)
  }

  /// At most a day beyond the last seen one: what is learned of a mailbox while the clock is ahead must hold when it
  /// is right again, and messages arrive on the days that it has left out.
  var todayStep: PostgresStep {
    PostgresStep(
      "today", "SELECT least((now() AT TIME ZONE 'UTC')::date, \(seenDay.map { PostgresDate($0 + 1) }))")
  }

  package func oldest(from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress, after: Int64)
    async throws(StoreError) -> QueuedEnvelope?
  {
    let result = try await read(
      "oldest",
      """
      SELECT sequence, \(MessageColumns.self), fingerprint
      FROM messages
      WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND source = \(source) AND sent = \(timestamp)
        AND day >= \(PostgresDate(days.first(of: mailbox).day)) AND sequence > \(after)
      ORDER BY sequence LIMIT 1
      """)
    return try result.first { (row) throws(StoreError) in try QueuedEnvelope(row: &row, in: mailbox) }
  }
}

// MARK: - Writing a batch

extension PostgresStorage {
  /// Inserts `envelopes` in their order as one transaction. Makes the day's partitions when nobody did.
  /// - Returns: the places in `watched` mailboxes, by the indices of `envelopes`.
  static func insert(
    _ envelopes: [Envelope], _ watched: Set<DeviceAddress>, layout: PostgresLayout,
    seenDay: PostgresMailboxDays.Day?, over connection: PostgresConnection, maintenance: PostgresMaintenance
  ) async throws(StoreError) -> [Int: AppendedPlace] {
    let append = PostgresAppend(envelopes, watched, layout: layout, seenDay: seenDay)
    var steps = [
      envelopes.contains { $0.mark != nil } ? countedInsertStep(envelopes, append) : insertStep(envelopes, append)
    ]
    if layout == .distributed, !watched.isEmpty {
      steps.append(PostgresAppend.othersStep(envelopes, in: watched, seenDay: seenDay))
    }
    let results = try await withDays(seenDay, maintenance) { () async throws(PostgresError) in
      try await connection.transaction(steps)
    }
    return PostgresAppended.places(of: envelopes, in: watched, results)
  }

  /// Runs `transaction`, and once more behind a day that was missing: maintenance makes days ahead, but a clock may
  /// jump beyond them.
  static func withDays(
    _ seenDay: PostgresMailboxDays.Day?, _ maintenance: PostgresMaintenance,
    _ transaction: () async throws(PostgresError) -> [PostgresResult]
  ) async throws(StoreError) -> [PostgresResult] {
    do throws(PostgresError) {
      return try await transaction()
    } catch .refused(.checkViolation, _) {
      // "No partition of relation found for row": the tables have no other check.
      try await maintenance.run { connection throws(StoreError) in
        try await PostgresPartitions.createMissing(seenDay: seenDay, over: connection)
      }
      do throws(PostgresError) {
        return try await transaction()
      } catch .refused(.checkViolation, _) {
        // Another day has begun meanwhile.
        throw .unavailable(reason: "a day is missing that messages are stored under")
      } catch {
        throw error.storeError
      }
    } catch {
      throw error.storeError
    }
  }

  /// An envelope is left out when its mailbox took it in, or had it acknowledged, today or yesterday: to look into
  /// each kept day would cost almost four times as much. Mailbox and acknowledgements are looked at as of one moment,
  /// so that an envelope just moved from one to the other is seen in one of them. The conflict clause handles rows
  /// that are not committed yet: it waits for the writer of the same fingerprint. Rows are written in one order
  /// everywhere, so that no two batches wait for each other, and numbered in the caller's.
  ///
  /// Nothing arrives on a day before the last seen one. The look-up of former envelopes begins on that day as well:
  /// the clock may have stepped back, or ahead.
  ///
  /// A row of the answer is `PostgresAppended`. Its `others` are looked up as of the same moment, and so name nothing
  /// of this batch. They are NULL for accounts that nobody watches here, and cost nothing there.
  private static func insertStep(_ envelopes: [Envelope], _ append: PostgresAppend) -> PostgresStep {
    PostgresStep(
      "append",
      """
      \(reserving: envelopes.reduce(400) { $0 + 140 + $1.byteCount })
      \(known: append, "\n")INSERT INTO messages AS n (account, device, sequence, day, \(MessageColumns.self), fingerprint)
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
      RETURNING n.account, n.device, n.fingerprint, n.sequence, \(othersOf: append)
      """)
  }
}
