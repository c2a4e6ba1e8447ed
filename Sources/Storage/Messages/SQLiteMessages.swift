import Foundation
import GRDB
package import RelayCore

extension SQLiteStorage {
  package func append(_ envelopes: [Envelope], watch: (any AppendWatch)?) async throws(StoreError) {
    try await batcher.append(envelopes, watch: watch)
  }

  package func pending(
    in mailbox: DeviceAddress, after: Int64, limit: Int
  ) async throws(StoreError) -> [QueuedEnvelope] {
    try await read { db in
      try db.rows(
        """
        SELECT \(QueuedEnvelope.columns) FROM messages
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND sequence > \(after)
        ORDER BY sequence LIMIT \(limit)
        """
      ).map { try QueuedEnvelope(row: $0, in: mailbox) }
    }
  }

  package func oldest(
    from source: AccountNumber, timestamp: Timestamp, in mailbox: DeviceAddress, after: Int64
  ) async throws(StoreError) -> QueuedEnvelope? {
    try await read { db in
      try db.row(
        """
        SELECT \(QueuedEnvelope.columns) FROM messages INDEXED BY messages_by_source
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND source = \(source)
          AND sent = \(timestamp) AND sequence > \(after) ORDER BY sequence LIMIT 1
        """
      ).map { try QueuedEnvelope(row: $0, in: mailbox) }
    }
  }

  package func standing(
    of timestamp: Timestamp, from source: AccountNumber, in mailbox: DeviceAddress
  ) async throws(StoreError) -> MessageStanding {
    let yesterday = presentDay - 1
    return try await read { db in
      let found = try Fields.valid(db.row(Self.standingQuery(mailbox, source, timestamp, since: yesterday)))
      return try found.flag(0) ? .queued : found.flag(1) ? .acknowledged : .unknown
    }
  }

  package func isKnown(_ envelopes: [Envelope]) async throws(StoreError) -> Bool {
    try await read { db in
      try envelopes.allSatisfy { envelope in
        let (account, device) = (envelope.destination.account, envelope.destination.device)
        let fingerprint = Data(envelope.fingerprint.bytes)
        return try Fields.valid(
          db.row(
            """
            SELECT
              EXISTS (
                SELECT 1 FROM messages
                WHERE account = \(account) AND device = \(device) AND fingerprint = \(fingerprint))
              OR EXISTS (
                SELECT 1 FROM acknowledged
                WHERE account = \(account) AND device = \(device) AND fingerprint = \(fingerprint))
            """)
        ).flag(0)
      }
    }
  }

  static func standingQuery(
    _ mailbox: DeviceAddress, _ source: AccountNumber, _ timestamp: Timestamp, since day: Int64
  ) -> SQL {
    """
    SELECT
      EXISTS (
        SELECT 1 FROM messages
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND source = \(source)
          AND sent = \(timestamp) AND type < \(MessageType.receipt.rawValue)),
      EXISTS (
        SELECT 1 FROM acknowledged
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND source = \(source)
          AND sent = \(timestamp) AND day >= \(day))
    """
  }

  package func usage(
    of mailbox: DeviceAddress, by source: AccountNumber, from peer: RelayName?, countingTo max: Int
  ) async throws(StoreError) -> MailboxUsage {
    try await read { db in
      let counts = Self.usageQuery(mailbox, by: source, countingTo: max)
      guard let peer else {
        let row = try Fields.valid(db.row(counts))
        return try MailboxUsage(total: Int(row.integer(0)), bySource: Int(row.integer(1)))
      }
      let row = try Fields.valid(db.row(Self.peerUsageQuery(mailbox, from: peer, countingTo: max, beside: counts)))
      return try MailboxUsage(
        total: Int(row.integer(0)), bySource: Int(row.integer(1)), byPeers: Int(row.integer(2)),
        byPeer: Int(row.integer(3)))
    }
  }

  static func usageQuery(_ mailbox: DeviceAddress, by source: AccountNumber, countingTo max: Int) -> SQL {
    """
    SELECT
      (SELECT count(*) FROM (
        SELECT 1 FROM messages WHERE account = \(mailbox.account) AND device = \(mailbox.device) LIMIT \(max))),
      (SELECT count(*) FROM (
        SELECT 1 FROM messages
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND source = \(source) LIMIT \(max)))
    """
  }

  /// - Parameter counts: the columns that come first.
  private static func peerUsageQuery(
    _ mailbox: DeviceAddress, from peer: RelayName, countingTo max: Int, beside counts: SQL
  ) -> SQL {
    """
    \(counts),
      (SELECT count(*) FROM (
        SELECT 1 FROM messages
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND relay IS NOT NULL LIMIT \(max))),
      (SELECT count(*) FROM (
        SELECT 1 FROM messages
        WHERE account = \(mailbox.account) AND device = \(mailbox.device) AND relay = \(peer) LIMIT \(max)))
    """
  }

  package func maintain(_ terms: RetentionTerms) async throws(StoreError) -> Int {
    let reading = try await advanceClock()
    let now = reading.removalTime
    try await forget(
      """
      DELETE FROM acknowledged WHERE (account, device, fingerprint) IN (
        SELECT account, device, fingerprint FROM acknowledged WHERE day < \(now.day - 1) LIMIT \(Self.chunkRows))
      """)
    for codes in [CodePurpose.registration.table, CodePurpose.linking.table] {
      try await forget(
        """
        DELETE FROM \(sql: codes) WHERE account IN (
          SELECT account FROM \(sql: codes) WHERE expires < \(now) LIMIT \(Self.chunkRows))
        """)
    }
    try await forget(
      """
      DELETE FROM invitations WHERE secret_hash IN (
        SELECT secret_hash FROM invitations WHERE expires < \(now) LIMIT \(Self.chunkRows))
      """)
    try await forget(
      """
      DELETE FROM leases WHERE name IN (SELECT name FROM leases WHERE expires < \(now) LIMIT \(Self.chunkRows))
      """)
    let longAgo = now.millis - OutboxRow.confirmationMillisMax
    try await forget(
      """
      DELETE FROM confirmed_devices WHERE (account, peer) IN (
        SELECT account, peer FROM confirmed_devices WHERE confirmed < \(longAgo) LIMIT \(Self.chunkRows))
      """)
    try await forgetUnlisted(at: now)
    try await forgetAudit(at: now)
    try await forgetOldLedger(at: now, future: reading.time.arrivalTime(at: reading.now))
    return try await dropDays(before: now.adding(.zero - terms.messages).day)
  }

  /// - Returns: how many days had messages to drop.
  private func dropDays(before cutoff: Int64) async throws(StoreError) -> Int {
    var dropped = 0
    while dropped < Self.daysDroppedMax, let day = try await oldestDay(), day < cutoff {
      try await forget(
        """
        DELETE FROM messages WHERE sequence IN (
          SELECT sequence FROM messages WHERE day = \(day) LIMIT \(Self.chunkRows))
        """)
      dropped += 1
    }
    return dropped
  }

  /// In one run: what a wrong clock, or a retention that was shortened in error, takes before anybody sees it.
  private static let daysDroppedMax = 2

  private func oldestDay() async throws(StoreError) -> Int64? {
    try await read { db in
      try db.row("SELECT day FROM messages ORDER BY day LIMIT 1").map { try $0.integer(0) }
    }
  }

  /// Repeats `delete` until it finds nothing, a transaction each, so that appends get their turn in between.
  /// - Parameter rows: which `delete` takes at most.
  func forget(_ delete: SQL, upTo rows: Int = chunkRows) async throws(StoreError) {
    while try await write({ db in
      try db.run(delete)
      return db.changesCount == rows
    }) {}
  }

  /// One transaction for all that gathered while the last one was written. Called by the batcher alone.
  /// - Returns: the places in `watched` mailboxes, by the indices of `envelopes`.
  static func write(
    _ envelopes: [Envelope], _ watched: Set<DeviceAddress>, day: Int64, to pool: DatabasePool,
    noting refusals: WriteRefusals
  ) async throws(StoreError) -> [Int: AppendedPlace] {
    do {
      return try await pool.write { db in
        let statement = try db.cachedStatement(sql: insertUnlessKnown)
        var accepted = LedgerSums()
        var places: [Int: AppendedPlace] = [:]
        for (index, envelope) in envelopes.enumerated() {
          let isWatched = watched.contains(envelope.destination)
          let others = isWatched ? try sequences(in: envelope.destination, of: db) : nil
          let fingerprint = Data(envelope.fingerprint.bytes)
          let (account, device) = (envelope.destination.account.key, envelope.destination.device.value)
          var arguments: [(any DatabaseValueConvertible)?] = [account, device, day]
          arguments += envelope.embeddedColumns
          arguments += [fingerprint, account, device, fingerprint]
          try statement.execute(arguments: StatementArguments(arguments))
          guard db.changesCount == 1 else { continue }
          if isWatched { places[index] = AppendedPlace(sequence: db.lastInsertedRowID, others: others) }
          if let crossing = envelope.crossing { accepted.add(.accepted, crossing, of: envelope.relay) }
        }
        try accepted.write(in: db)
        return places
      }
    } catch {
      refusals.note(error)
      throw StoreError(embedded: error)
    }
  }

  /// - Returns: what `mailbox` holds; nil for more than a watch is told of.
  private static func sequences(in mailbox: DeviceAddress, of db: Database) throws -> [Int64]? {
    let sequences = try Int64.fetchAll(
      db.cachedStatement(sql: sequencesOfMailbox),
      arguments: [mailbox.account.key, mailbox.device.value, AppendedPlace.othersMax + 1])
    return sequences.count > AppendedPlace.othersMax ? nil : sequences
  }

  private static let sequencesOfMailbox =
    "SELECT sequence FROM messages WHERE account = ? AND device = ? ORDER BY sequence LIMIT ?"

  private static let insertUnlessKnown = """
    INSERT INTO messages (account, device, day, \(MessageColumns.embedded), fingerprint)
    SELECT ?, ?, ?, \(MessageColumns.embedded.split(separator: ",").map { _ in "?" }.joined(separator: ", ")), ?
    WHERE NOT EXISTS (SELECT 1 FROM acknowledged WHERE account = ? AND device = ? AND fingerprint = ?)
    ON CONFLICT (account, device, fingerprint) DO NOTHING
    """

  /// Rows of one transaction of `maintain`: a few milliseconds of the write lock.
  static let chunkRows = 1000
}
