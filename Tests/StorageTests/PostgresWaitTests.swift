// Tests of waits for locks. psql plays other processes' transactions, and waits in turn until it is waited for.

import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresWaitTests {
  /// A loop that ends when somebody waits for this transaction, or after a minute with an error.
  private static let untilSomebodyWaits = """
    FOR turn IN 1..6000 LOOP
      EXIT WHEN EXISTS (
        SELECT FROM pg_locks WHERE NOT granted AND transactionid = pg_current_xact_id()::xid);
      IF turn = 6000 THEN RAISE 'nobody waits'; END IF;
      PERFORM pg_sleep(0.01);
    END LOOP;
    """

  private static func hex(_ fingerprint: Fingerprint) -> String {
    fingerprint.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  @Test func `batches with the same messages in opposite order wait in one order`() async throws {
    try await withPostgres { storage, server, url in
      let (mailbox, source) = try (Sample.address(1), Sample.address(2))
      let envelopes = (0..<20).map { Sample.envelope(to: mailbox, from: source, id: $0) }
        .sorted { ($0.fingerprint.high, $0.fingerprint.low) < ($1.fingerprint.high, $1.fingerprint.low) }
      func insert(_ envelope: Envelope) -> String {
        """
        INSERT INTO messages (account, device, sequence, day, type, source, source_device, sent, fingerprint)
        VALUES (\(mailbox.account.column), 1, nextval('message_sequence'), (now() AT TIME ZONE 'UTC')::date, 1,
          \(source.account.column), 1, 0, '\(Self.hex(envelope.fingerprint))');
        """
      }
      let other = """
        SET deadlock_timeout = '10ms';
        DO $$ BEGIN
          \(insert(envelopes[0]))
          PERFORM pg_advisory_xact_lock(1);
          \(Self.untilSomebodyWaits)
          \(insert(envelopes[19]))
        END $$
        """
      async let process = Loopback.blocking { try server.sql(other, in: url) }
      try await eventually("the other process has begun") {
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
        let mine = "(SELECT oid FROM pg_database WHERE datname = current_database())"
        return try server.sql(held + mine, in: url) == "1"
      }
      // Given the last first, the store still writes the first first, and waits with nothing in its hands.
      try await storage.append(envelopes.reversed())
      _ = try await process
      let stored = try await storage.pending(in: mailbox, after: 0, limit: 100).map(\.envelope.fingerprint)
      #expect(stored.count == 20)
      // Between the other's, the caller's order.
      #expect(Array(stored.dropFirst().dropLast()) == envelopes[1..<19].reversed().map(\.fingerprint))
    }
  }

  /// Runs `change` in another process's transaction, which ends when somebody waits for it.
  /// - Returns: when the change is done and not yet committed.
  private static func begin(_ change: String, on server: PostgresServer, in url: String) async throws -> Task<
    Void, any Error
  > {
    let transaction = """
      DO $$ BEGIN
        \(change);
        PERFORM pg_advisory_xact_lock(1);
        \(untilSomebodyWaits)
      END $$
      """
    let process = Task { _ = try await Loopback.blocking { try server.sql(transaction, in: url) } }
    try await eventually("the other process has begun") {
      let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
      let mine = "(SELECT oid FROM pg_database WHERE datname = current_database())"
      return try server.sql(held + mine, in: url) == "1"
    }
    return process
  }

  /// A registration compares the values that stand when its turn comes, not those that stood when it was sent.
  @Test func `a lock set during a waiting registration refuses it`() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let number = try await store.registerAccounts(1)[0]
      let other = try await Self.begin(
        """
        UPDATE accounts SET registration_lock_salt = 'salt', registration_lock_hash = 'hash'
        WHERE account = \(number.column)
        """, on: server, in: url)
      let registration = try Sample.registration(0, registrationID: 8)
      #expect(try await storage.register(registration, proof: .trusted, now: Sample.noon) == .locked)
      try await other.value
      #expect(try await storage.account(number)?.devices.map(\.registrationID) == [7])
    }
  }

  @Test func `a device that becomes active while a link waits keeps its id`() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let number = try await store.registerAccounts(1)[0]
      #expect(try await store.link(Sample.link(0)) == .linked(Sample.device(2)))
      let other = try await Self.begin(
        """
        PERFORM FROM accounts WHERE account = \(number.column) FOR UPDATE;
        UPDATE devices SET has_signed_prekey = true WHERE account = \(number.column) AND device = 2
        """, on: server, in: url)
      #expect(try await store.link(Sample.link(0, registrationID: 10)) == .linked(Sample.device(3)))
      try await other.value
      #expect(try await storage.account(number)?.devices.map(\.registrationID) == [7, 9, 10])
    }
  }

  @Test func `a waiting directory leaves the store ready`() async throws {
    try await withPostgres { storage, server, url in
      let other = """
        DO $$ BEGIN
          LOCK TABLE accounts;
          FOR turn IN 1..12000 LOOP
            EXIT WHEN EXISTS (SELECT FROM pg_tables WHERE tablename = 'released');
            PERFORM pg_sleep(0.01);
          END LOOP;
        END $$
        """
      async let process = Loopback.blocking { try server.sql(other, in: url) }
      // Asked over the store's own connection, since the directory does not wait for ever.
      func isThere(_ lock: String) async throws -> Bool {
        let sql = "SELECT FROM pg_locks WHERE relation = 'accounts'::regclass AND \(lock)"
        return try await storage.reads.read(PostgresStep(.once(sql))).rowCount == 1
      }
      try await eventually("the table is locked") { try await isThere("granted") }
      // Again and again: it is refused once it has waited too long, which is not this test's matter.
      let counting = Task { while !Task.isCancelled { _ = try? await storage.accountCount() } }
      defer { counting.cancel() }
      try await eventually("the directory waits") { try await isThere("NOT granted") }
      try await storage.ping()
      // Nor does whoever sends a message wait.
      let (mailbox, source) = try (Sample.address(1), Sample.number(2))
      #expect(try await storage.usage(of: mailbox, by: source, from: nil, countingTo: 9).total == 0)
      #expect(try await storage.standing(of: Sample.noon, from: source, in: mailbox) == .unknown)
      try await eventually("the directory still waits") { try await isThere("NOT granted") }
      try server.sql("CREATE TABLE released ()", in: url)
      _ = try await process
      counting.cancel()
      await counting.value
    }
  }

  /// Takes `lock` in another process's transaction for as long as `body` runs, a minute at most.
  private static func holding(
    _ lock: String, on server: PostgresServer, in url: String, _ body: () async throws -> Void
  ) async throws {
    let transaction = """
      DO $$ BEGIN
        \(lock);
        PERFORM pg_advisory_xact_lock(1);
        FOR turn IN 1..6000 LOOP
          EXIT WHEN EXISTS (SELECT FROM pg_tables WHERE tablename = 'released');
          PERFORM pg_sleep(0.01);
        END LOOP;
      END $$
      """
    async let process = Loopback.blocking { try server.sql(transaction, in: url) }
    try await eventually("the other process has begun") {
      let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
      let mine = "(SELECT oid FROM pg_database WHERE datname = current_database())"
      return try server.sql(held + mine, in: url) == "1"
    }
    try await body()
    try server.sql("CREATE TABLE released ()", in: url)
    _ = try await process
  }

  /// A draw of keys stands behind a truncation that waits.
  @Test func `setting keys aside gives up soon if it must wait`() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let device = DeviceAddress(try await store.registerAccounts(1)[0], .master)
      #expect(try await storage.replacePreKeys(of: device, with: Sample.upload([1, 2])) == .stored)
      let lock = "LOCK TABLE one_time_prekeys IN ROW EXCLUSIVE MODE"
      try await Self.holding(lock, on: server, in: url) {
        let error = await #expect(throws: StoreError.self) {
          try await storage.setAsideOneTimePreKeys(epoch: 5, by: .process, behind: .zero)
        }
        guard case .unavailable = error else { throw TestFailure("\(String(describing: error))") }
        // The other has not ended: the lock is held until this returns.
        #expect(try await store.draw(from: device.account).map(\.preKey?.keyID) == [1])
      }
      #expect(
        try await storage.bulk.read(
          "lock_timeout", "SELECT FROM pg_settings WHERE name = 'lock_timeout' AND setting = '5000'"
        )
        .rowCount == 1)
      try await storage.setAsideOneTimePreKeys(epoch: 5, by: .process, behind: .zero)
      #expect(try await storage.preKeyCount(of: device) == 0)
    }
  }

  @Test func `a peer's epoch that does not rise waits for nobody`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      #expect(try await storage.savePeer(peer))
      #expect(try await storage.rememberEpoch(5, of: peer.name) == 0)
      try await Self.holding("PERFORM FROM peers FOR UPDATE", on: server, in: url) {
        for epoch in [0, 5] as [Int64] {
          let known = try await storage.rememberEpoch(epoch, of: peer.name)
          #expect(known == 5)
        }
      }
      #expect(try await storage.rememberEpoch(6, of: peer.name) == 5)
      #expect(try await storage.rememberEpoch(0, of: peer.name) == 6)
    }
  }

  @Test func `contacts that arrive while their peer is removed go with it`() async throws {
    try await withPostgres { storage, server, url in
      let peer = try Sample.peer("beta")
      #expect(try await storage.savePeer(peer))
      // As a merge would that had the peer's row first and commits when the removal waits for it.
      try server.sql(
        """
        CREATE FUNCTION merge() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          INSERT INTO peer_contacts VALUES (OLD.name, 'token', true, true, 1);
          RETURN OLD;
        END $$;
        CREATE TRIGGER merge BEFORE DELETE ON peers FOR EACH ROW EXECUTE FUNCTION merge();
        """, in: url)
      #expect(try await storage.removePeer(peer.name) == .removed)
      #expect(try server.sql("SELECT count(*) FROM peer_contacts", in: url) == "0")
    }
  }

  /// One key of two recipients: the push is the first one's, whose key changes while the send is being written.
  @Test func `a key that changes during a send takes no push from another recipient`() async throws {
    try await withPostgres { storage, server, url in
      let (user, first, second) = (try Sample.user(), try Sample.recipient(1), try Sample.recipient(2))
      #expect(try await storage.addNotificationAccount(try Sample.account()))
      for number in [first, second] {
        let added = try await storage.addRecipient(
          number, Sample.fcm, of: user, subject: Sample.noText, now: Sample.noon)
        #expect(added == .added)
      }
      let waiting = """
        SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
          SELECT pid FROM pg_stat_activity WHERE datname = current_database())
        """
      // Holds the number that the send takes, until the other change waits as well.
      let other = """
        DO $$ BEGIN
          PERFORM FROM notification_numbers FOR UPDATE;
          FOR turn IN 1..6000 LOOP
            PERFORM pg_stat_clear_snapshot();
            EXIT WHEN (\(waiting)) >= 2;
            IF turn = 6000 THEN RAISE 'the change does not wait for the send'; END IF;
            PERFORM pg_sleep(0.01);
          END LOOP;
        END $$
        """
      async let process = Loopback.blocking { try server.sql(other, in: url) }
      try await eventually("the number is taken") {
        try server.sql(
          "SELECT count(*) FROM pg_locks WHERE relation = 'notification_numbers'::regclass AND mode = 'RowShareLock'",
          in: url) == "1"
      }
      async let sent = storage.send(
        Sample.hello, to: [first, second].map { Sample.address($0) }, of: user, recipientsMax: 10, now: Sample.noon,
        due: Sample.noon)
      try await eventually("the send waits for its number") { try server.sql(waiting, in: url) == "1" }
      let new = RecipientKey(provider: .fcm, text: "new")
      let another = try await PostgresStorage.connected(to: url)
      let replacement = try await another.replaceKey(of: first, by: new, of: user, now: Sample.noon)
      await another.close()
      #expect(replacement == .replaced)
      _ = try await process
      guard case .sent(_, 2) = try await sent else { throw TestFailure("not sent") }
      let jobs = try await storage.claimPushes(of: .fcm, limit: 10, now: Sample.noon)
      #expect(Set(jobs.map(\.key)) == [new, Sample.fcm])
    }
  }

  @Test func `facts known of a mailbox expire`() throws {
    let (days, mailbox, now) = try (PostgresMailboxDays(), Sample.address(1), ContinuousClock.now)
    days.learned(mailbox, oldest: nil, today: 100, now: now)
    let known = days.first(of: mailbox, now: now + .seconds(3599))
    #expect(known.day == 99 && !known.isWorthLearning)
    let expired = days.first(of: mailbox, now: now + .seconds(3600))
    #expect(expired.day == PostgresMailboxDays.beginning && expired.isWorthLearning)
  }
}
