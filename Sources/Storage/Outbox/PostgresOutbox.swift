package import RelayCore

// Each change to a peer's outbox locks the peer's row of `outbox_charges` first, by a step of its own. Several such
// rows are locked in the order of their names. So these changes take turns, whatever process they come from, and the
// steps behind the lock see each other's work. Bounds are never exceeded, and sequences rise in the order of commits:
// a reader that has seen one has seen all that will ever be below it. Notes on an account's devices need none of
// that.

extension PostgresStorage {
  package func hold(
    _ messages: [PeerSubmission], counting crossings: [[Crossing]], for relay: RelayName, bounds: OutboxBounds,
    now: Timestamp
  ) async throws(StoreError) -> [Bool] {
    guard !messages.isEmpty else { return [] }
    let rows = messages.map(OutboxRow.init)
    let results = try await write(
      [
        // The peer's row is locked against its removal, which would leave messages for nobody behind, and not against
        // changes of it: its condition is written while messages are held. So it may be suspended by the next step,
        // which looks again: after a suspension only those go on that had the lock before, and the removal waits for
        // them.
        PostgresStep(
          "hold_lock",
          """
          WITH peer AS MATERIALIZED (
            SELECT name FROM peers WHERE name = \(relay) AND state = 'active' FOR KEY SHARE
          )
          INSERT INTO outbox_charges AS known (peer, messages, bytes) SELECT name, 0, 0 FROM peer
          ON CONFLICT (peer) DO UPDATE SET messages = known.messages
          """),
        Self.holdStep(messages, rows, for: relay, bounds: bounds, now: now),
        // Also when it was held before: whoever had no answer may ask again.
        PostgresStep(
          "hold_outcome",
          """
          SELECT fingerprint FROM outbox
          WHERE peer = \(relay) AND fingerprint = ANY (\(each: rows.lazy.map(\.fingerprint)))
          """),
      ] + countHeldSteps(rows, crossings, for: relay))
    guard results.count > 2 else { return messages.map { _ in false } }
    let held = Set(try results[2].all { (row) throws(StoreError) in try row.fingerprint() })
    return rows.map { held.contains($0.fingerprint) }
  }

  /// Counts what of `crossings` belongs to a message that is held.
  private func countHeldSteps(
    _ rows: [OutboxRow], _ crossings: [[Crossing]], for relay: RelayName
  ) -> [PostgresStep] {
    let counted = zip(rows, crossings).flatMap { row, crossings in crossings.map { (row.fingerprint, $0) } }
    guard !counted.isEmpty else { return [] }
    let crossings = counted.lazy.map(\.1)
    let relay = PostgresParameter(relay)
    return [
      PostgresStep(
        "hold_count",
        """
        \(reserving: 64 + counted.count * 64)
        WITH fresh AS (
          INSERT INTO crossings (kind, hour, tag, mark, noted, settled)
          SELECT g.kind, g.hour, g.tag, g.mark, relay_present_day(\(seenDay.map(PostgresDate.init))), false
          FROM unnest(
              \(each: crossings.map(\.hour.number)), \(each: crossings.map(\.mark.bits)),
              \(each: crossings.map(\.kind.rawValue)), \(each: crossings.map { $0.tag?.bits ?? 0 }),
              \(each: counted.lazy.map(\.0)))
            AS g (hour, mark, kind, tag, fingerprint)
          WHERE EXISTS (SELECT FROM outbox AS o WHERE o.peer = \(relay) AND o.fingerprint = g.fingerprint)
          ORDER BY g.kind, g.hour, g.tag, g.mark
          ON CONFLICT DO NOTHING
          RETURNING hour, mark, kind
        )
        INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
        SELECT \(relay), hour, kind, 0, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
          sum((mark >> 32) & 4294967295)::bigint
        FROM fresh GROUP BY hour, kind ORDER BY hour, kind
        ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
          SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
        """)
    ]
  }

  /// New messages are counted up in the order of `messages`: after the first that has no room, none has.
  private static func holdStep(
    _ messages: [PeerSubmission], _ rows: [OutboxRow], for relay: RelayName, bounds: OutboxBounds, now: Timestamp
  ) -> PostgresStep {
    let relay = PostgresParameter(relay)
    let now = PostgresParameter(now)
    return PostgresStep(
      "hold",
      """
      \(reserving: rows.reduce(300) { $0 + 120 + $1.bundle.count })
      WITH fresh AS (
          SELECT DISTINCT ON (i.fingerprint) i.*
          FROM unnest(
              \(each: messages.lazy.map(\.source.account)), \(each: messages.lazy.map(\.source.device)),
              \(each: messages.lazy.map(\.submission.destination)), \(each: rows.lazy.map(\.coversMasterOnly)),
              \(each: rows.lazy.map(\.bundle)), \(each: messages.lazy.map { Int64($0.byteCount) }),
              \(each: rows.lazy.map(\.fingerprint)))
            WITH ORDINALITY
            AS i (account, device, destination, covers_master_only, bundle, bytes, fingerprint, place)
          WHERE NOT EXISTS (SELECT FROM outbox AS o WHERE o.peer = \(relay) AND o.fingerprint = i.fingerprint)
          ORDER BY i.fingerprint, i.place
        ),
        counted AS (
          SELECT fresh.*, row_number() OVER (ORDER BY place) AS messages_in_all,
            sum(bytes) OVER (ORDER BY place) AS bytes_in_all
          FROM fresh
        ),
        held AS (
          INSERT INTO outbox (peer, account, device, destination, covers_master_only, bundle, bytes, fingerprint,
            accepted, not_before)
          SELECT c.peer, n.account, n.device, n.destination, n.covers_master_only, n.bundle, n.bytes, n.fingerprint,
            \(now), \(now)
          FROM counted AS n
          CROSS JOIN outbox_charges AS c JOIN peers AS p ON p.name = c.peer AND p.state = 'active'
          WHERE c.peer = \(relay) AND n.messages_in_all <= \(Int64(bounds.messagesMax)) - c.messages
            AND n.bytes_in_all <= \(bounds.bytesMax) - c.bytes
          ORDER BY n.place
          ON CONFLICT (peer, fingerprint) DO NOTHING
          RETURNING bytes
        )
      UPDATE outbox_charges AS c SET messages = c.messages + h.messages, bytes = c.bytes + h.bytes
      FROM (SELECT count(*) AS messages, sum(bytes)::bigint AS bytes FROM held) AS h
      WHERE c.peer = \(relay) AND h.messages > 0
      """)
  }

  package func destinationsHeld(among destinations: [AccountNumber], at relay: RelayName) async throws(StoreError)
    -> Set<AccountNumber>
  {
    guard !destinations.isEmpty else { return [] }
    let result = try await read(
      "destinations_held",
      """
      SELECT i.destination FROM unnest(\(each: destinations)) AS i (destination)
      WHERE EXISTS (SELECT FROM outbox AS o WHERE o.peer = \(relay) AND o.destination = i.destination)
      """)
    return Set(try result.all { (row) throws(StoreError) in try row.account() })
  }

  package func held(for relay: RelayName, after: Int64, limit: Int) async throws(StoreError) -> [HeldMessage] {
    let result = try await readBulk(
      "held",
      """
      SELECT sequence, account, device, destination, covers_master_only, bundle, accepted, attempts, not_before
      FROM (
        SELECT sequence, account, device, destination, covers_master_only, bundle, accepted, attempts, not_before,
          sum(octet_length(bundle)) OVER (ORDER BY sequence) - octet_length(bundle) AS bytes_ahead
        FROM outbox WHERE peer = \(relay) AND sequence > \(after)
        ORDER BY sequence LIMIT \(Int64(limit))
      ) AS page
      WHERE bytes_ahead < \(OutboxRow.pageBytesMax) ORDER BY sequence
      """)
    return try result.all { (row) throws(StoreError) in try HeldMessage(row: &row, for: relay) }
  }

  package func putOff(_ sequences: [Int64], until notBefore: Timestamp) async throws(StoreError) {
    guard !sequences.isEmpty else { return }
    _ = try await write([
      Self.lockCharges(of: sequences),
      PostgresStep(
        "put_off",
        """
        UPDATE outbox SET attempts = attempts + 1, not_before = \(notBefore) WHERE sequence = ANY (\(each: sequences))
        """),
    ])
  }

  package func makeDue(for relay: RelayName, now: Timestamp) async throws(StoreError) -> Int {
    let (relay, now) = (PostgresParameter(relay), PostgresParameter(now))
    let results = try await writeBulk([
      PostgresStep(
        "make_due_lock", "UPDATE outbox_charges SET retried = \(now) WHERE peer = \(relay) RETURNING messages"),
      PostgresStep(
        "make_due", "UPDATE outbox SET not_before = \(now) WHERE peer = \(relay) AND not_before > \(now)"),
    ])
    return try results.first?.first { (row) throws(StoreError) in Int(try row.bigint()) } ?? 0
  }

  package func makeDue(
    for relay: RelayName, among destinations: [AccountNumber], now: Timestamp
  ) async throws(StoreError) {
    guard !destinations.isEmpty else { return }
    let now = PostgresParameter(now)
    _ = try await write([
      PostgresStep(
        "make_due_among_lock", "SELECT FROM outbox_charges WHERE peer = \(relay) FOR UPDATE"),
      PostgresStep(
        "make_due_among",
        """
        UPDATE outbox SET not_before = \(now)
        WHERE peer = \(relay) AND destination = ANY (\(each: destinations)) AND not_before > \(now)
        """),
    ])
  }

  package func removeHeld(_ sequences: [Int64], counting record: LedgerRecord?) async throws(StoreError) {
    guard !sequences.isEmpty else { return }
    let count = record.flatMap { $0.crossings.isEmpty ? nil : step($0, waitsForDisk: true) }
    _ = try await write(
      [
        Self.lockCharges(of: sequences),
        PostgresStep(
          "remove_held",
          """
          WITH removed AS (DELETE FROM outbox WHERE sequence = ANY (\(each: sequences)) RETURNING peer, bytes),
            released AS (
              SELECT peer, count(*) AS messages, sum(bytes)::bigint AS bytes FROM removed GROUP BY peer
            )
          UPDATE outbox_charges AS c SET messages = c.messages - r.messages, bytes = c.bytes - r.bytes
          FROM released AS r WHERE c.peer = r.peer
          """),
      ] + (count.map { [$0] } ?? []))
  }

  package func outboxUsage() async throws(StoreError) -> [OutboxUsage] {
    let result = try await read(
      "outbox_usage",
      """
      SELECT c.peer, c.messages, c.bytes, first.accepted, next.not_before, c.retried
      FROM outbox_charges AS c
      CROSS JOIN LATERAL (SELECT accepted FROM outbox WHERE peer = c.peer ORDER BY sequence LIMIT 1) AS first
      CROSS JOIN LATERAL (SELECT not_before FROM outbox WHERE peer = c.peer ORDER BY not_before LIMIT 1) AS next
      ORDER BY c.peer
      """)
    return try result.all(OutboxUsage.init(row:))
  }

  private static func lockCharges(of sequences: [Int64]) -> PostgresStep {
    PostgresStep(
      "lock_outbox_charges",
      """
      SELECT 1 FROM outbox_charges
      WHERE peer IN (SELECT peer FROM outbox WHERE sequence = ANY (\(each: sequences))) ORDER BY peer FOR UPDATE
      """)
  }
}

extension OutboxUsage {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      relay: try row.relayName(), messages: Int(try row.bigint()), bytes: try row.bigint(),
      oldest: try row.timestamp(), nextAttempt: try row.timestamp(), retried: try row.timestamp())
  }
}

extension HeldMessage {
  fileprivate init(row: inout PostgresRow, for relay: RelayName) throws(StoreError) {
    let sequence = try row.bigint()
    let (source, destination) = (DeviceAddress(try row.account(), try row.device()), try row.account())
    let (coversMasterOnly, bundle, accepted) = (try row.boolean(), try row.bytes(), try row.timestamp())
    let submission = OutboxRow.submission(
      bundle: bundle, to: destination, coversMasterOnly: coversMasterOnly, accepted: accepted)
    self.init(
      sequence: sequence, message: PeerSubmission(relay: relay, source: source, submission: submission),
      accepted: accepted, attempts: Int(try row.integer()), notBefore: try row.timestamp())
  }
}
