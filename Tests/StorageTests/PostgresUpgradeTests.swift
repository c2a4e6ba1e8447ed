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

  /// Brings an empty database to an earlier step, as a build that knew no more did.
  static func migrate(to version: Int, on server: PostgresServer, in url: String) throws {
    let steps = PostgresMigration.all.filter { $0.version <= version }
    let history = steps.map {
      "INSERT INTO relay_schema VALUES (\($0.version), '\($0.name)', 5, \($0.oldestCompatible))"
    }
    let table = """
      CREATE TABLE relay_schema (version integer NOT NULL, name text NOT NULL, applied bigint NOT NULL,
        oldest_compatible integer NOT NULL, PRIMARY KEY (version))
      """
    try server.sql((steps.flatMap(\.statements) + [table] + history).joined(separator: ";\n"), in: url)
    for table in ["messages", "acknowledged"] { try server.addDay(0, to: table, in: url) }
  }

  private static func expected() -> Device {
    Device(
      id: .master, password: PasswordHash(salt: Array("salt".utf8), hash: Array("hash".utf8)),
      signalingKey: Secret("signaling"), registrationID: 7, fetchesMessages: true, name: "phone",
      lastSeen: Sample.noon, created: Sample.noon)
  }

  @Test func whatTheFirstBuildStoredIsKept() async throws {
    try await withPostgres(migrated: false) { storage, server, url in
      try Self.migrate(to: 1, on: server, in: url)
      let (account, mailbox) = try (Sample.number(1), Sample.address(1))
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      try server.sql("INSERT INTO one_time_prekeys VALUES (\(account.column), 1, 5, 'key')", in: url)
      try server.sql("UPDATE accounts SET identity_key = 'identity'", in: url)
      #expect(try await storage.compatibility() == .tooOld(version: 1, needed: PostgresMigration.needed))

      try await storage.migrate { _ in }
      #expect(try await storage.compatibility() == .usable(version: PostgresMigration.newest))
      let found = try #require(try await storage.account(account))
      #expect(found.devices == [Self.expected()])
      #expect(found.registrationLock == nil)
      let drawn = try await storage.drawPreKeys(of: account, devices: [.master], oneTime: [.master], epoch: 0)
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

  @Test func whatTheFirstBuildWritesFitsTodaysSchema() async throws {
    try await withPostgres { storage, server, url in
      let (account, mailbox, source) = try (Sample.number(1), Sample.address(1), Sample.number(2))
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

  /// By which the second build saved a peer, as far as it names columns.
  private static let peerOfSecondBuild = """
    WITH saved AS (
      INSERT INTO peers AS known (name, url, ca_certificate, state, scopes, added)
      VALUES ('beta', 'https://beta.example:8443', '\\x300100ff', 'active', 'directory messages', \(Sample.noon.millis))
      ON CONFLICT (name) DO UPDATE SET url = excluded.url, state = excluded.state, scopes = excluded.scopes,
        added = excluded.added
      WHERE known.ca_certificate = excluded.ca_certificate
      RETURNING 1
    )
    UPDATE revisions SET value = value + 1 WHERE subject = 'peers' AND EXISTS (SELECT FROM saved)
    """

  @Test func whatTheSecondBuildStoredIsKept() async throws {
    try await withPostgres(migrated: false) { storage, server, url in
      try Self.migrate(to: 2, on: server, in: url)
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      try server.sql(Self.peerOfSecondBuild, in: url)
      try server.sql("UPDATE peers SET contacts_pass = 4, contacts_mark = 'mark', witnessed_epoch = 9", in: url)
      let token = try Sample.token(7)
      try server.sql("INSERT INTO peer_contacts VALUES ('beta', '\\x00000000000000000007', true, false, 4)", in: url)
      #expect(try await storage.compatibility() == .tooOld(version: 2, needed: PostgresMigration.needed))

      try await storage.migrate { _ in }
      #expect(try await storage.compatibility() == .usable(version: PostgresMigration.newest))
      let beta = try Sample.relay("beta")
      #expect(try await storage.peers() == [Sample.peer("beta")])
      #expect(try await storage.rememberEpoch(1, of: beta) == 9)
      let pass = try await storage.contactsPass(of: beta)
      #expect(pass.pass == 4 && pass.mark == "mark")
      #expect(try await storage.claimants(of: token) == [beta])
      // Who listed it before that was remembered comes before who lists it from now on, and a build of before adds to it.
      for name in ["alpha", "gamma"] { #expect(try await storage.savePeer(Sample.peer(name))) }
      try server.sql(
        """
        INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
        VALUES ('gamma', '\\x00000000000000000007', true, false, 4)
        """, in: url)
      try await Task.sleep(for: .milliseconds(5))
      let listed = ListedAccount(token: token, isInactive: false, supportsSMS: true, voice: true)
      try await storage.mergeContacts([listed], of: Sample.relay("alpha"), pass: 1)
      #expect(
        try await storage.claimants(of: token) == [beta, Sample.relay("gamma"), Sample.relay("alpha")])
      for name in ["alpha", "gamma"] { #expect(try await storage.removePeer(Sample.relay(name)) == .removed) }
      // Its accounts are in the listing, and in the feed from their next change on.
      #expect(try await storage.listingCursor().revision == 0)
      var reader = try await ListingReader(of: storage)
      try await reader.read()
      #expect(try await reader.follow() == 0)
      #expect(try await reader.known.count == storage.accountCount())
      var change = DeviceChange()
      change.voice = .set(true)
      #expect(try await storage.updateDevice(Sample.address(1), change))
      #expect(try await reader.follow() == 1)
    }
  }

  @Test func theSecondBuildWorksOnTodaysSchema() async throws {
    try await withPostgres { storage, server, url in
      #expect(PostgresMigration.all.prefix(5).map(\.oldestCompatible) == [1, 1, 2, 3, 4])
      let account = try Sample.number(1).column
      var reader = try await ListingReader(of: storage)
      // What it changes of the listing reaches those that follow the feed, and nothing else does.
      let statements = try [
        (Self.registrationOfFirstBuild(1), changes: 1), (Self.registrationOfFirstBuild(1), 0),
        ("UPDATE accounts SET active = false WHERE account = \(account)", 1),
        ("UPDATE accounts SET active = false, voice = false WHERE account = \(account)", 0),
        ("UPDATE accounts SET identity_key = 'identity' WHERE account = \(account)", 0),
        (Self.registrationOfFirstBuild(1), 1), (Self.registrationOfFirstBuild(2), 1),
      ]
      for (statement, changes) in statements {
        try server.sql(statement, in: url)
        #expect(try await reader.follow() == changes)
        #expect(try await reader.isCurrent())
      }
      // A peer that it saves again is trusted as before, and found as before.
      let peer = try Sample.peer("beta")
      try server.sql(Self.peerOfSecondBuild, in: url)
      #expect(try await storage.peers() == [peer])
      #expect(try await storage.setPeerPolicy(PeerPolicy(holdsMessages: true), of: peer.name))
      #expect(
        try await storage.setPeerTrust(
          PeerTrust(sequence: 2), caCertificate: peer.caCertificate, replacing: peer.caCertificate, of: peer.name))
      try server.sql(Self.peerOfSecondBuild, in: url)
      try server.sql("UPDATE peers SET state = 'suspended' WHERE name = 'beta'", in: url)
      let kept = try #require(try await storage.peers().first)
      #expect(kept.policy.holdsMessages && kept.trust.sequence == 2 && kept.state == .suspended)
    }
  }

  @Test func whatTheThirdBuildStoredIsInTheDirectory() async throws {
    try await withPostgres(migrated: false) { storage, server, url in
      try Self.migrate(to: 3, on: server, in: url)
      try server.sql(Self.registrationOfFirstBuild(1), in: url)
      try server.sql(Self.peerOfSecondBuild, in: url)
      try server.sql(
        "INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass) VALUES ('beta', '\\x00000000000000000007', true, false, 4)",
        in: url)
      #expect(try await storage.compatibility() == .tooOld(version: 3, needed: PostgresMigration.needed))
      try await storage.migrate { _ in }
      var reader = try await DirectoryReader(of: storage)
      #expect(reader.entries.count == 2)
      #expect(try await reader.isCurrent())
      #expect(try await reader.follow() == 0)
    }
  }

  @Test func whatTheThirdBuildChangesReachesTheFeed() async throws {
    try await withPostgres { storage, server, url in
      let account = try Sample.number(1).column
      var reader = try await DirectoryReader(of: storage)
      let contact = "INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass) VALUES"
      let statements = try [
        (Self.registrationOfFirstBuild(1), changes: 1), (Self.registrationOfFirstBuild(1), 0),
        ("UPDATE accounts SET active = true, voice = true WHERE account = \(account)", 1),
        (Self.peerOfSecondBuild, 0),
        (
          "\(contact) ('beta', '\\x00000000000000000007', true, false, 4), ('beta', '\\x08000000000000000007', true, true, 4)",
          2
        ),
        ("UPDATE peer_contacts SET pass = 5", 0),
        ("UPDATE peers SET state = 'suspended' WHERE name = 'beta'", 1),
        ("UPDATE peers SET state = 'active' WHERE name = 'beta'", 1),
        ("DELETE FROM peer_contacts WHERE supports_sms AND voice", 1),
        ("UPDATE accounts SET active = false WHERE account = \(account)", 1),
        ("DELETE FROM peers", 1),
      ]
      for (statement, changes) in statements {
        try server.sql(statement, in: url)
        #expect(try await reader.follow() == changes, "\(statement)")
        #expect(try await reader.isCurrent(), "\(statement)")
      }
      #expect(reader.entries.isEmpty)
    }
  }
}
