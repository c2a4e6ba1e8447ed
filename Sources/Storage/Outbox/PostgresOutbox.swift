package import RelayCore

// Whatever changes a peer's outbox locks the peer's row of `outbox_charges` first, by a step of its own, and several of
// them in the order of their names: such changes take turns, whatever process they come from, and the steps behind it
// see each other's work. So bounds are never exceeded, and sequences rise in the order of commits: a reader that has
// seen one has seen all that will ever be below it. What is said of an account's devices needs none of that.

extension PostgresStorage {
  package func hold(
    _ messages: [OutgoingMessage], counting crossings: [[Crossing]], for relay: RelayName, bounds: OutboxBounds,
    now: Timestamp
  ) async throws(StoreError) -> [Bool] {
    guard !messages.isEmpty else { return [] }
    let rows = messages.map(OutboxRow.init)
    let results = try await write(
      [
        // The peer's row is locked against its removal, which would leave messages for nobody behind, and not against
        // changes of it: its condition is written while messages are held. So it may be suspended by the next step, which
        // looks again: after a suspension only those go on that had the lock before, and the removal waits for them.
        PostgresStep(
          .prepared(
            "hold_lock",
            """
            WITH peer AS MATERIALIZED (
              SELECT name FROM peers WHERE name = $1::text AND state = 'active' FOR KEY SHARE
            )
            INSERT INTO outbox_charges AS known (peer, messages, bytes) SELECT name, 0, 0 FROM peer
            ON CONFLICT (peer) DO UPDATE SET messages = known.messages
            """), PostgresParameters { $0.add(text: relay.text) }),
        Self.holdStep(messages, rows, for: relay, bounds: bounds, now: now),
        // Also when it was held before: whoever had no answer may ask again.
        PostgresStep(
          .prepared(
            "hold_outcome", "SELECT fingerprint FROM outbox WHERE peer = $1::text AND fingerprint = ANY ($2::uuid[])"),
          PostgresParameters {
            $0.add(text: relay.text)
            $0.add(uuids: rows.map(\.fingerprint))
          }),
      ] + countHeldSteps(rows, crossings, for: relay))
    guard results.count > 2 else { return messages.map { _ in false } }
    let outcome = results[2]
    var held: Set<Fingerprint> = []
    for index in outcome.rows {
      var row = outcome.cursor(row: index)
      held.insert(try row.fingerprint())
    }
    return rows.map { held.contains($0.fingerprint) }
  }

  /// Counts what of `crossings` belongs to a message that is held.
  private func countHeldSteps(
    _ rows: [OutboxRow], _ crossings: [[Crossing]], for relay: RelayName
  ) -> [PostgresStep] {
    let counted = zip(rows, crossings).flatMap { row, crossings in crossings.map { (row.fingerprint, $0) } }
    guard !counted.isEmpty else { return [] }
    return [
      PostgresStep(
        .prepared(
          "hold_count",
          """
          WITH fresh AS (
            INSERT INTO crossings (kind, hour, tag, mark, noted, settled)
            SELECT g.kind, g.hour, g.tag, g.mark, relay_present_day($7::date), false
            FROM unnest($2::integer[], $3::bigint[], $4::smallint[], $5::bigint[], $6::uuid[])
              AS g (hour, mark, kind, tag, fingerprint)
            WHERE EXISTS (SELECT FROM outbox AS o WHERE o.peer = $1::text AND o.fingerprint = g.fingerprint)
            ORDER BY g.kind, g.hour, g.tag, g.mark
            ON CONFLICT DO NOTHING
            RETURNING hour, mark, kind
          )
          INSERT INTO loss_ledger AS l (peer, hour, kind, event, slot, crossings, low, high)
          SELECT $1::text, hour, kind, 0, pg_backend_pid() % 16, count(*), sum(mark & 4294967295)::bigint,
            sum((mark >> 32) & 4294967295)::bigint
          FROM fresh GROUP BY hour, kind ORDER BY hour, kind
          ON CONFLICT (peer, hour, kind, event, slot) DO UPDATE
            SET crossings = l.crossings + excluded.crossings, low = l.low + excluded.low, high = l.high + excluded.high
          """),
        PostgresParameters(reserving: 64 + counted.count * 64) {
          let record = LedgerRecord(.handedOver, counted.map(\.1), relay: relay)
          $0.add(record)
          $0.add(tagsOf: record)
          $0.add(uuids: counted.map(\.0))
          $0.add(integer: seenDay)
        })
    ]
  }

  /// What is new is counted up in the order of `messages`: from the first on that has no room, none has.
  private static func holdStep(
    _ messages: [OutgoingMessage], _ rows: [OutboxRow], for relay: RelayName, bounds: OutboxBounds, now: Timestamp
  ) -> PostgresStep {
    PostgresStep(
      .prepared(
        "hold",
        """
        WITH fresh AS (
            SELECT DISTINCT ON (i.fingerprint) i.*
            FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::boolean[], $6::bytea[], $7::bigint[], $8::uuid[])
              WITH ORDINALITY
              AS i (account, device, destination, covers_master_only, bundle, bytes, fingerprint, place)
            WHERE NOT EXISTS (SELECT FROM outbox AS o WHERE o.peer = $1::text AND o.fingerprint = i.fingerprint)
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
              $9::bigint, $9::bigint
            FROM counted AS n
            CROSS JOIN outbox_charges AS c JOIN peers AS p ON p.name = c.peer AND p.state = 'active'
            WHERE c.peer = $1::text AND n.messages_in_all <= $10::bigint - c.messages
              AND n.bytes_in_all <= $11::bigint - c.bytes
            ORDER BY n.place
            ON CONFLICT (peer, fingerprint) DO NOTHING
            RETURNING bytes
          )
        UPDATE outbox_charges AS c SET messages = c.messages + h.messages, bytes = c.bytes + h.bytes
        FROM (SELECT count(*) AS messages, sum(bytes)::bigint AS bytes FROM held) AS h
        WHERE c.peer = $1::text AND h.messages > 0
        """),
      PostgresParameters(reserving: rows.reduce(300) { $0 + 120 + $1.bundle.count }) {
        $0.add(text: relay.text)
        $0.add(bigints: messages.map(\.source.account.column))
        $0.add(integers: messages.map(\.source.device.value))
        $0.add(bigints: messages.map(\.submission.destination.column))
        $0.add(booleans: rows.map(\.coversMasterOnly))
        $0.add(byteas: rows.map(\.bundle))
        $0.add(bigints: messages.map { Int64($0.byteCount) })
        $0.add(uuids: rows.map(\.fingerprint))
        $0.add(bigint: now.millis)
        $0.add(bigint: Int64(bounds.messagesMax))
        $0.add(bigint: bounds.bytesMax)
      })
  }

  package func destinationsHeld(among destinations: [AccountNumber], at relay: RelayName) async throws(StoreError)
    -> Set<AccountNumber>
  {
    guard !destinations.isEmpty else { return [] }
    let result = try await read(
      .prepared(
        "destinations_held",
        """
        SELECT i.destination FROM unnest($2::bigint[]) AS i (destination)
        WHERE EXISTS (SELECT FROM outbox AS o WHERE o.peer = $1::text AND o.destination = i.destination)
        """),
      PostgresParameters {
        $0.add(text: relay.text)
        $0.add(bigints: destinations.map(\.column))
      })
    var held: Set<AccountNumber> = []
    for index in result.rows {
      var row = result.cursor(row: index)
      held.insert(try row.account())
    }
    return held
  }

  package func held(for relay: RelayName, after: Int64, limit: Int) async throws(StoreError) -> [HeldMessage] {
    let result = try await readBulk(
      .prepared(
        "held",
        """
        SELECT sequence, account, device, destination, covers_master_only, bundle, accepted, attempts, not_before
        FROM (
          SELECT sequence, account, device, destination, covers_master_only, bundle, accepted, attempts, not_before,
            sum(octet_length(bundle)) OVER (ORDER BY sequence) - octet_length(bundle) AS bytes_ahead
          FROM outbox WHERE peer = $1::text AND sequence > $2::bigint
          ORDER BY sequence LIMIT $3::bigint
        ) AS page
        WHERE bytes_ahead < $4::bigint ORDER BY sequence
        """),
      PostgresParameters {
        $0.add(text: relay.text)
        $0.add(bigint: after)
        $0.add(bigint: Int64(limit))
        $0.add(bigint: OutboxRow.pageBytesMax)
      })
    var messages: [HeldMessage] = []
    messages.reserveCapacity(result.rowCount)
    for index in result.rows {
      var row = result.cursor(row: index)
      messages.append(try Self.heldMessage(&row, for: relay))
    }
    return messages
  }

  package func putOff(_ sequences: [Int64], until notBefore: Timestamp) async throws(StoreError) {
    guard !sequences.isEmpty else { return }
    _ = try await write([
      Self.lockCharges(of: sequences),
      PostgresStep(
        .prepared(
          "put_off",
          "UPDATE outbox SET attempts = attempts + 1, not_before = $2::bigint WHERE sequence = ANY ($1::bigint[])"),
        PostgresParameters {
          $0.add(bigints: sequences)
          $0.add(bigint: notBefore.millis)
        }),
    ])
  }

  package func makeDue(for relay: RelayName, now: Timestamp) async throws(StoreError) -> Int {
    let parameters = PostgresParameters {
      $0.add(text: relay.text)
      $0.add(bigint: now.millis)
    }
    let results = try await writeBulk([
      PostgresStep(
        .prepared(
          "make_due_lock",
          "UPDATE outbox_charges SET retried = $2::bigint WHERE peer = $1::text RETURNING messages"), parameters),
      PostgresStep(
        .prepared(
          "make_due", "UPDATE outbox SET not_before = $2::bigint WHERE peer = $1::text AND not_before > $2::bigint"),
        parameters),
    ])
    guard let charges = results.first, charges.rowCount == 1 else { return 0 }
    var row = charges.cursor(row: 0)
    return Int(try row.bigint())
  }

  package func makeDue(
    for relay: RelayName, among destinations: [AccountNumber], now: Timestamp
  ) async throws(StoreError) {
    guard !destinations.isEmpty else { return }
    _ = try await write([
      PostgresStep(
        .prepared("make_due_among_lock", "SELECT FROM outbox_charges WHERE peer = $1::text FOR UPDATE"),
        PostgresParameters { $0.add(text: relay.text) }),
      PostgresStep(
        .prepared(
          "make_due_among",
          """
          UPDATE outbox SET not_before = $2::bigint
          WHERE peer = $1::text AND destination = ANY ($3::bigint[]) AND not_before > $2::bigint
          """),
        PostgresParameters {
          $0.add(text: relay.text)
          $0.add(bigint: now.millis)
          $0.add(bigints: destinations.map(\.column))
        }),
    ])
  }

  package func removeHeld(_ sequences: [Int64], counting record: LedgerRecord?) async throws(StoreError) {
    guard !sequences.isEmpty else { return }
    let count = record.flatMap { $0.crossings.isEmpty ? nil : step($0, waitsForDisk: true) }
    _ = try await write(
      [
        Self.lockCharges(of: sequences),
        PostgresStep(
          .prepared(
            "remove_held",
            """
            WITH removed AS (DELETE FROM outbox WHERE sequence = ANY ($1::bigint[]) RETURNING peer, bytes),
              released AS (
                SELECT peer, count(*) AS messages, sum(bytes)::bigint AS bytes FROM removed GROUP BY peer
              )
            UPDATE outbox_charges AS c SET messages = c.messages - r.messages, bytes = c.bytes - r.bytes
            FROM released AS r WHERE c.peer = r.peer
            """), PostgresParameters { $0.add(bigints: sequences) }),
      ] + (count.map { [$0] } ?? []))
  }

  package func outboxUsage() async throws(StoreError) -> [OutboxUsage] {
    let result = try await read(
      .prepared(
        "outbox_usage",
        """
        SELECT c.peer, c.messages, c.bytes, first.accepted, next.not_before, c.retried
        FROM outbox_charges AS c
        CROSS JOIN LATERAL (SELECT accepted FROM outbox WHERE peer = c.peer ORDER BY sequence LIMIT 1) AS first
        CROSS JOIN LATERAL (SELECT not_before FROM outbox WHERE peer = c.peer ORDER BY not_before LIMIT 1) AS next
        ORDER BY c.peer
        """))
    var usage: [OutboxUsage] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      usage.append(
        OutboxUsage(
          relay: try row.relayName(), messages: Int(try row.bigint()), bytes: try row.bigint(),
          oldest: try row.timestamp(), nextAttempt: try row.timestamp(), retried: try row.timestamp()))
    }
    return usage
  }

  private static func lockCharges(of sequences: [Int64]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "lock_outbox_charges",
        """
        SELECT 1 FROM outbox_charges
        WHERE peer IN (SELECT peer FROM outbox WHERE sequence = ANY ($1::bigint[])) ORDER BY peer FOR UPDATE
        """), PostgresParameters { $0.add(bigints: sequences) })
  }

  private static func heldMessage(_ row: inout PostgresRow, for relay: RelayName) throws(StoreError) -> HeldMessage {
    let sequence = try row.bigint()
    let (source, destination) = (DeviceAddress(try row.account(), try row.device()), try row.account())
    let (coversMasterOnly, bundle, accepted) = (try row.boolean(), try row.bytes(), try row.timestamp())
    let submission = OutboxRow.submission(
      bundle: bundle, to: destination, coversMasterOnly: coversMasterOnly, accepted: accepted)
    return HeldMessage(
      sequence: sequence, message: OutgoingMessage(relay: relay, source: source, submission: submission),
      accepted: accepted, attempts: Int(try row.integer()), notBefore: try row.timestamp())
  }
}
