import GRDB
package import RelayCore

// One writer at a time: sequences rise in the order of commits, and the charges, which triggers keep, are exact.

extension SQLiteStorage {
  package func hold(
    _ messages: [PeerSubmission], counting crossings: [[Crossing]], for relay: RelayName, bounds: OutboxBounds,
    now: Timestamp
  ) async throws(StoreError) -> [Bool] {
    guard !messages.isEmpty else { return [] }
    let rows = messages.map(OutboxRow.init)
    let (present, day) = (clock.now(), presentDay)
    return try await write { db in
      let isActive = try db.row("SELECT 1 FROM peers WHERE name = \(relay) AND state = 'active'") != nil
      let charges = try db.row("SELECT messages, bytes FROM outbox_charges WHERE peer = \(relay)")
      var (messagesHeld, bytesHeld) = try charges.map { try ($0.integer(0), $0.integer(1)) } ?? (0, 0)
      // From the first on that has no room, none has.
      var hasRoom = isActive
      var held: [Bool] = []
      for (message, row) in zip(messages, rows) {
        let fingerprint = row.fingerprint.bytes
        if try db.row("SELECT 1 FROM outbox WHERE peer = \(relay) AND fingerprint = \(fingerprint)") != nil {
          held.append(true)
          continue
        }
        let bytes = Int64(message.byteCount)
        hasRoom = hasRoom && messagesHeld < Int64(bounds.messagesMax) && bytesHeld <= bounds.bytesMax - bytes
        held.append(hasRoom)
        guard hasRoom else { continue }
        (messagesHeld, bytesHeld) = (messagesHeld + 1, bytesHeld + bytes)
        try db.run(
          """
          INSERT INTO outbox (peer, account, device, destination, covers_master_only, bundle, bytes, fingerprint,
            accepted, not_before)
          VALUES (\(relay), \(message.source.account), \(message.source.device), \(message.submission.destination),
            \(row.coversMasterOnly), \(row.bundle), \(bytes), \(fingerprint), \(now), \(now))
          """)
      }
      let counted = zip(held, crossings).flatMap { isHeld, crossings in isHeld ? crossings : [] }
      try Self.count(LedgerRecord(.handedOver, counted, relay: relay), at: present, day: day, in: db)
      return held
    }
  }

  package func destinationsHeld(among destinations: [AccountNumber], at relay: RelayName) async throws(StoreError)
    -> Set<AccountNumber>
  {
    guard !destinations.isEmpty else { return [] }
    return try await read { db in
      var held: Set<AccountNumber> = []
      for destination in Set(destinations) {
        let found = try db.row("SELECT 1 FROM outbox WHERE peer = \(relay) AND destination = \(destination) LIMIT 1")
        if found != nil { held.insert(destination) }
      }
      return held
    }
  }

  package func held(for relay: RelayName, after: Int64, limit: Int) async throws(StoreError) -> [HeldMessage] {
    try await read { db in
      let page: SQL = """
        SELECT sequence, account, device, destination, covers_master_only, bundle, accepted, attempts, not_before
        FROM outbox WHERE peer = \(relay) AND sequence > \(after) ORDER BY sequence LIMIT \(limit)
        """
      let rows = try Row.fetchCursor(db, SQLRequest(literal: page, cached: true))
      var messages: [HeldMessage] = []
      var bytes: Int64 = 0
      while bytes < OutboxRow.pageBytesMax, let row = try rows.next() {
        let fields = Fields(row: row)
        let bundle = try fields.bytes(5)
        bytes += Int64(bundle.count)
        messages.append(try HeldMessage(row: fields, bundle: bundle, for: relay))
      }
      return messages
    }
  }

  package func putOff(_ sequences: [Int64], until notBefore: Timestamp) async throws(StoreError) {
    try await write { db in
      for sequence in sequences {
        try db.run(
          """
          UPDATE outbox SET attempts = attempts + 1, not_before = \(notBefore) WHERE sequence = \(sequence)
          """)
      }
    }
  }

  package func makeDue(for relay: RelayName, now: Timestamp) async throws(StoreError) -> Int {
    try await write { db in
      try db.run("UPDATE outbox SET not_before = \(now) WHERE peer = \(relay) AND not_before > \(now)")
      try db.run("UPDATE outbox_charges SET retried = \(now) WHERE peer = \(relay)")
      let charges = try db.row("SELECT messages FROM outbox_charges WHERE peer = \(relay)")
      return try charges.map { try Int($0.integer(0)) } ?? 0
    }
  }

  package func makeDue(
    for relay: RelayName, among destinations: [AccountNumber], now: Timestamp
  ) async throws(StoreError) {
    try await write { db in
      for destination in Set(destinations) {
        try db.run(
          """
          UPDATE outbox SET not_before = \(now)
          WHERE peer = \(relay) AND destination = \(destination) AND not_before > \(now)
          """)
      }
    }
  }

  package func removeHeld(_ sequences: [Int64], counting record: LedgerRecord?) async throws(StoreError) {
    let (now, day) = (clock.now(), presentDay)
    try await write { db in
      for sequence in sequences { try db.run("DELETE FROM outbox WHERE sequence = \(sequence)") }
      if let record { try Self.count(record, at: now, day: day, in: db) }
    }
  }

  package func outboxUsage() async throws(StoreError) -> [OutboxUsage] {
    try await read { db in
      try db.rows(
        """
        SELECT peer, messages, bytes,
          (SELECT accepted FROM outbox WHERE peer = c.peer ORDER BY sequence LIMIT 1),
          (SELECT not_before FROM outbox WHERE peer = c.peer ORDER BY not_before LIMIT 1), retried
        FROM outbox_charges AS c WHERE messages > 0 ORDER BY peer
        """
      ).map(OutboxUsage.init(row:))
    }
  }
}

extension OutboxUsage {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      relay: try row.relay(0), messages: Int(try row.integer(1)), bytes: try row.integer(2),
      oldest: try row.time(3), nextAttempt: try row.time(4), retried: try row.time(5))
  }
}

extension HeldMessage {
  /// - Parameter bundle: of the row.
  fileprivate init(row: Fields, bundle: [UInt8], for relay: RelayName) throws(StoreError) {
    let (destination, accepted) = try (row.number(3), row.time(6))
    let submission = try OutboxRow.submission(
      bundle: bundle, to: destination, coversMasterOnly: row.flag(4), accepted: accepted)
    let source = try DeviceAddress(row.number(1), row.device(2))
    self.init(
      sequence: try row.integer(0), message: PeerSubmission(relay: relay, source: source, submission: submission),
      accepted: accepted, attempts: Int(try row.integer(7)), notBefore: try row.time(8))
  }
}
