import RelayCore
import Testing

@testable import Storage

@Suite struct EmbeddedUpgradeTests {
  @Test("A database of the first step keeps what it held, and builds of that step can go on writing to it")
  func secondStep() async throws {
    try await withTemporaryFolder { folder in
      let storage = try EmbeddedStorage(path: folder + "/relay.sqlite", clock: ManualClock(Sample.noon).wall)
      try await storage.migrate(to: 1) { _ in }
      let former = try FormerBuild(storage: storage)
      try await former.register()
      try await former.acknowledge(sentAt: 1)
      #expect(try await storage.compatibility() == .tooOld(version: 1, needed: EmbeddedMigration.needed))
      try await storage.migrate { _ in }
      try await former.receive(sentAt: 2)

      let (mailbox, source) = (try Sample.address(1), try Sample.number(2))
      let account = try #require(try await storage.account(mailbox.account))
      #expect(account.registrationLock == nil)
      #expect(account.devices.map(\.signalingKey) == [Secret("former")])
      #expect(account.devices.map(\.pushRegistered) == [nil])
      #expect(try await storage.preKeyCount(of: mailbox) == 1)
      func hasReceived(_ millis: Int64) async throws -> Bool {
        try await storage.hasReceived(from: source, timestamp: Timestamp(millis: millis), in: mailbox)
      }
      // The first step did not note who sent what was acknowledged.
      #expect(try await !hasReceived(1))
      #expect(try await hasReceived(2))
      try await former.register()
      #expect(try await storage.account(mailbox.account)?.devices.count == 1)
      await storage.close()
    }
  }

  @Test("A database of the second step keeps what it held, and builds of that step can go on writing to it")
  func thirdStep() async throws {
    try await withTemporaryFolder { folder in
      let storage = try EmbeddedStorage(path: folder + "/relay.sqlite", clock: ManualClock(Sample.noon).wall)
      try await storage.migrate(to: 2) { _ in }
      let former = try FormerBuild(storage: storage)
      try await former.register()
      try await former.savePeer()
      #expect(try await storage.compatibility() == .tooOld(version: 2, needed: EmbeddedMigration.needed))
      try await storage.migrate { _ in }
      #expect(try await storage.compatibility() == .usable(version: EmbeddedMigration.newest))
      #expect(EmbeddedMigration.all.prefix(5).map(\.usableFrom) == [1, 1, 2, 3, 4])

      let peer = try Sample.peer("beta")
      #expect(try await storage.peers() == [peer])
      let pass = try await storage.contactsPass(of: peer.name)
      #expect(pass.pass == 4 && pass.mark == "mark")
      // Its accounts are in the listing, and in the feed from their next change on.
      var reader = try await ListingReader(of: storage)
      #expect(reader.cursor.revision == 0)
      try await reader.read()
      try await former.register()
      #expect(try await reader.follow() == 0)
      try await former.setActive(false)
      #expect(try await reader.follow() == 1)
      #expect(try await reader.isCurrent())
      try await former.register(2)
      #expect(try await reader.follow() == 1)
      #expect(try await reader.isCurrent())

      #expect(
        try await storage.setPeerTrust(
          PeerTrust(sequence: 2), caCertificate: peer.caCertificate, replacing: peer.caCertificate, of: peer.name))
      try await former.savePeer()
      #expect(try await storage.peers().map(\.trust.sequence) == [2])
      await storage.close()
    }
  }
}

extension EmbeddedUpgradeTests {
  @Test("A database of the third step keeps what it held, and builds of that step can go on writing to it")
  func fourthStep() async throws {
    try await withTemporaryFolder { folder in
      let storage = try EmbeddedStorage(path: folder + "/relay.sqlite", clock: ManualClock(Sample.noon).wall)
      try await storage.migrate(to: 3) { _ in }
      let former = try FormerBuild(storage: storage)
      try await former.register()
      try await former.savePeer()
      try await former.list(7)
      #expect(try await storage.compatibility() == .tooOld(version: 3, needed: EmbeddedMigration.needed))
      try await storage.migrate { _ in }
      // What it held is in the directory, and what it changes from now on in the feed.
      var reader = try await DirectoryReader(of: storage)
      #expect(reader.entries.count == 2)
      #expect(try await reader.isCurrent())
      try await former.list(8)
      try await former.register(2)
      try await former.setActive(false)
      #expect(try await reader.follow() == 3)
      #expect(reader.entries.count == 3)
      #expect(try await reader.isCurrent())
      await storage.close()
    }
  }
}

/// What builds that know the first three steps alone write about number 1, and about a peer.
private struct FormerBuild {
  let storage: EmbeddedStorage
  private let account: Int64
  private let source: Int64
  private let token: String

  init(storage: EmbeddedStorage) throws {
    self.storage = storage
    let number = try Sample.number(1)
    (account, source) = try (number.key, Sample.number(2).key)
    token = try Self.literal(Sample.token(number).bytes)
  }

  func register() async throws {
    try await write(
      "DELETE FROM devices WHERE account = \(account)",
      """
      INSERT INTO accounts (number, token, active, supports_sms, voice, identity_key)
      VALUES (\(account), \(token), 1, 1, 1, NULL)
      ON CONFLICT (number) DO UPDATE SET token = excluded.token
      """,
      """
      INSERT INTO devices (account, id, password_salt, password_hash, signaling_key, registration_id,
        fetches_messages, gcm_id, apn_id, voip_apn_id, name, user_agent, has_signed_prekey, last_seen, created)
      VALUES (\(account), 1, x'01', x'02', \(Self.literal("former".utf8)), 1, 1, NULL, NULL, NULL, NULL, NULL, 0, 0, 0)
      """,
      "INSERT INTO prekeys (account, device, key_id, public_key) VALUES (\(account), 1, 1, x'05')")
  }

  /// Another account, without devices.
  func register(_ index: Int) async throws {
    let number = try Sample.number(index)
    let token = try Self.literal(Sample.token(number).bytes)
    try await write(
      "INSERT INTO accounts (number, token, active, supports_sms, voice) VALUES (\(number.key), \(token), 1, 0, 1)")
  }

  func setActive(_ isActive: Bool) async throws {
    try await write("UPDATE accounts SET active = \(isActive ? 1 : 0) WHERE number = \(account)")
  }

  func savePeer() async throws {
    try await write(
      """
      INSERT INTO peers (name, url, ca_certificate, state, scopes, added)
      VALUES ('beta', 'https://beta.example:8443', x'300100ff', 'active', 'directory messages', \(Sample.noon.millis))
      ON CONFLICT (name) DO UPDATE SET url = excluded.url, state = excluded.state, scopes = excluded.scopes,
        added = excluded.added
      """,
      "UPDATE peers SET contacts_pass = 4, contacts_mark = \(Self.literal("mark".utf8))")
  }

  /// As a contact of the peer.
  func list(_ index: Int) async throws {
    let token = try Self.literal(Sample.token(index).bytes)
    try await write(
      "INSERT INTO contacts (peer, token, supports_sms, voice, pass) VALUES ('beta', \(token), 1, 0, 4)")
  }

  func acknowledge(sentAt millis: Int64) async throws {
    try await write(
      """
      INSERT OR REPLACE INTO acknowledged (account, device, fingerprint, day)
      VALUES (\(account), 1, \(fingerprint(millis)), \(Sample.noon.day))
      """)
  }

  /// From number 2.
  func receive(sentAt millis: Int64) async throws {
    try await write(
      """
      INSERT INTO messages (account, device, arrived_day, type, source, source_device, relay, timestamp, message,
        content, fingerprint)
      VALUES (\(account), 1, \(Sample.noon.day), 1, \(source), 1, NULL, \(millis), NULL, NULL, \(fingerprint(millis)))
      """)
  }

  private func write(_ statements: String...) async throws {
    try await storage.write { db in for statement in statements { try db.run(statement) } }
  }

  private func fingerprint(_ millis: Int64) -> String {
    Self.literal(Array(repeating: UInt8(truncatingIfNeeded: millis), count: 16))
  }

  /// How SQL writes bytes.
  private static func literal(_ bytes: some Sequence<UInt8>) -> String {
    "x'\(bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())'"
  }
}
