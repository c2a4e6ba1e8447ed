package import RelayCore

// Whatever changes a peer's outbox locks the peer's row of `outbox_charges` first, by a step of its own, and several of
// them in the order of their names: such changes take turns, whatever process they come from, and the steps behind it
// see each other's work. So bounds are never exceeded, and sequences rise in the order of commits: a reader that has
// seen one has seen all that will ever be below it. What is said of an account's devices needs none of that.

extension PostgresStorage {
  package func hold(_ message: OutgoingMessage, bounds: OutboxBounds, now: Timestamp) async throws(StoreError) -> Bool {
    let row = OutboxRow(message)
    let results = try await write([
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
          """), PostgresParameters { $0.add(text: message.relay.text) }),
      PostgresStep(
        .prepared(
          "hold",
          """
          WITH held AS (
            INSERT INTO outbox (peer, account, device, destination, covers_master_only, bundle, bytes, fingerprint,
              accepted, not_before)
            SELECT c.peer, $2::bigint, $3::integer, $4::bigint, $5::boolean, $6::bytea, $7::bigint, $8::uuid,
              $9::bigint, $9::bigint
            FROM outbox_charges AS c JOIN peers AS p ON p.name = c.peer AND p.state = 'active'
            WHERE c.peer = $1::text AND c.messages < $10::bigint AND c.bytes <= $11::bigint - $7::bigint
            ON CONFLICT (peer, fingerprint) DO NOTHING
            RETURNING 1
          )
          UPDATE outbox_charges SET messages = messages + 1, bytes = bytes + $7::bigint
          WHERE peer = $1::text AND EXISTS (SELECT FROM held)
          """),
        PostgresParameters(reserving: 200 + row.bundle.count) {
          $0.add(text: message.relay.text)
          $0.add(account: message.source.account)
          $0.add(device: message.source.device)
          $0.add(account: message.submission.destination)
          $0.add(boolean: row.coversMasterOnly)
          $0.add(bytea: row.bundle)
          $0.add(bigint: Int64(message.byteCount))
          $0.add(uuid: row.fingerprint)
          $0.add(bigint: now.millis)
          $0.add(bigint: Int64(bounds.messagesMax))
          $0.add(bigint: bounds.bytesMax)
        }),
      // Also when it was held before: whoever had no answer may ask again.
      PostgresStep(
        .prepared("hold_outcome", "SELECT 1 FROM outbox WHERE peer = $1::text AND fingerprint = $2::uuid"),
        PostgresParameters {
          $0.add(text: message.relay.text)
          $0.add(uuid: row.fingerprint)
        }),
    ])
    return results.last?.rowCount == 1
  }

  package func isHeld(for destination: AccountNumber, at relay: RelayName) async throws(StoreError) -> Bool {
    let result = try await read(
      .prepared(
        "is_held", "SELECT 1 FROM outbox WHERE peer = $1::text AND destination = $2::bigint LIMIT 1"),
      PostgresParameters {
        $0.add(text: relay.text)
        $0.add(account: destination)
      })
    return result.rowCount > 0
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

  package func removeHeld(_ sequences: [Int64]) async throws(StoreError) {
    guard !sequences.isEmpty else { return }
    _ = try await write([
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
    ])
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
