// A database of an earlier build, and earlier builds on today's.

import RelayCore
import TestSupport
import Testing

@testable import Storage

@Suite struct PostgresUpgradeTests {
  /// The statements by which the first build registered, as far as they name columns.
  private static func registrationOfFirstBuild(_ index: Int) throws -> String {
    let number = try Sample.number(index)
    let token = try Sample.token(number).bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    return """
      INSERT INTO accounts (account, token, active, supports_sms, voice)
      VALUES (\(number.column), '\\x\(token)', true, true, false)
      ON CONFLICT (account) DO UPDATE SET token = excluded.token, active = excluded.active,
        supports_sms = excluded.supports_sms, voice = excluded.voice, identity_key = NULL;
      DELETE FROM devices WHERE account = \(number.column);
      INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
        fetches_messages, gcm_id, apn_id, voip_apn_id, name, user_agent, has_signed_prekey, last_seen, created)
      VALUES (\(number.column), 1, 'salt', 'hash', 'signaling', 7, true, NULL, NULL, NULL, 'phone', NULL, false,
        \(Sample.noon.millis), \(Sample.noon.millis));
      """
  }

  private static func expected() -> Device {
    Device(
      id: .master, password: PasswordHash(salt: Array("salt".utf8), hash: Array("hash".utf8)),
      signalingKey: Secret("signaling"), registrationID: 7, fetchesMessages: true, name: "phone",
      lastSeen: Sample.noon, created: Sample.noon)
  }

  @Test func whatTheFirstBuildStoredIsKept() async throws {
    try await withPostgres(migrated: false) { storage, server, url in
      let first = PostgresMigration.all[0]
      let history = """
        CREATE TABLE relay_schema (version integer NOT NULL, name text NOT NULL, applied bigint NOT NULL,
          oldest_compatible integer NOT NULL, PRIMARY KEY (version));
        INSERT INTO relay_schema VALUES (1, '\(first.name)', 5, 1);
        """
      try server.sql(first.statements.joined(separator: ";\n") + ";\n" + history, in: url)
      for table in ["messages", "acknowledged"] { try server.addDay(0, to: table, in: url) }
      let (account, mailbox) = try (Sample.number(1), Sample.address(1))
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      try server.sql("INSERT INTO one_time_prekeys VALUES (\(account.column), 1, 5, 'key')", in: url)
      try server.sql("UPDATE accounts SET identity_key = 'identity'", in: url)
      #expect(try await storage.compatibility() == .tooOld(version: 1, needed: 2))

      try await storage.migrate { _ in }
      #expect(try await storage.compatibility() == .usable(version: 2))
      let found = try #require(try await storage.account(account))
      #expect(found.devices == [Self.expected()])
      #expect(found.registrationLock == nil)
      let drawn = try await storage.drawPreKeys(of: account, devices: [.master], oneTime: [.master])
      #expect(drawn.map(\.preKey) == [PreKey(keyID: 5, publicKey: "key")])
      #expect(drawn.map(\.signedPreKey) == [nil])
      #expect(try await storage.setSignedPreKey(Sample.signedKey(1), of: mailbox, identityKey: "identity"))
      // Days that the first build made take what is acknowledged today.
      let envelope = try Sample.envelope(to: mailbox, from: Sample.address(2), id: 1)
      try await storage.append([envelope])
      _ = try await storage.acknowledge(
        source: envelope.source.account, timestamp: envelope.timestamp, in: mailbox)
      #expect(
        try await storage.hasReceived(from: envelope.source.account, timestamp: envelope.timestamp, in: mailbox))
    }
  }

  /// The first build knows neither, and whoever registers through it must not meet the former owner's.
  @Test func aRegistrationByTheFirstBuildEndsLinkingCodesAndLocks() async throws {
    try await withPostgres { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      let lock = Sample.lock(1)
      for index in [1, 2] {
        #expect(try await store.register(Sample.registration(index, newLock: lock)) == .registered)
      }
      let code = VerificationCode(code: Store.code, expires: store.now.adding(.seconds(600)))
      for index in [1, 2] {
        try await storage.setVerificationCode(code, for: Sample.number(index), purpose: .linking)
        #expect(try await storage.account(Sample.number(index))?.registrationLock == lock)
      }
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      #expect(try await storage.account(Sample.number(1))?.registrationLock == nil)
      #expect(
        try await storage.linkDevice(Sample.link(1), code: Store.code, triesMax: 5, now: store.now) == .codeRefused)
      // Of that number alone; and a linked device is no registration.
      #expect(
        try await storage.linkDevice(Sample.link(2), code: Store.code, triesMax: 5, now: store.now)
          == .linked(Sample.device(2)))
      #expect(try await storage.account(Sample.number(2))?.registrationLock == lock)
    }
  }

  @Test func theFirstBuildWorksOnTodaysSchema() async throws {
    try await withPostgres { storage, server, url in
      let (account, mailbox, source) = try (Sample.number(1), Sample.address(1), Sample.number(2))
      #expect(PostgresMigration.all.allSatisfy { $0.oldestCompatible == 1 })
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      try server.sql("UPDATE accounts SET identity_key = 'identity'", in: url)
      #expect(try await storage.setSignedPreKey(Sample.signedKey(1), of: mailbox, identityKey: "identity"))
      // A registration by the first build takes the signed prekey away with the device.
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      #expect(try await storage.account(account)?.devices == [Self.expected()])
      #expect(try await storage.signedPreKey(of: mailbox) == nil)
      // What it acknowledged is remembered, only not for receipts.
      let envelope = try Sample.envelope(to: mailbox, from: Sample.address(2), id: 1)
      let fingerprint = envelope.fingerprint.bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
      try server.sql(
        """
        INSERT INTO acknowledged (account, device, fingerprint, day)
        VALUES (\(account.column), 1, '\(fingerprint)', (now() AT TIME ZONE 'UTC')::date)
        """, in: url)
      try await storage.append([envelope])
      #expect(try await storage.pending(in: mailbox, after: 0, limit: 9).isEmpty)
      #expect(try await !storage.hasReceived(from: source, timestamp: envelope.timestamp, in: mailbox))
      try server.sql(
        "INSERT INTO peers (name, url, ca_certificate, state, scopes, added) VALUES ('b', 'u', 'c', 'active', '', 1)",
        in: url)
      #expect(try await storage.rememberEpoch(3, of: Sample.relay("b")) == 0)
    }
  }
}
