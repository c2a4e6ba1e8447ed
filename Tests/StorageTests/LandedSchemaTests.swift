// A database of the third step, the oldest that operators may have data of every kind in, brought to today's.

import RelayCore
import TestSupport
import Testing

@testable import Storage

/// What the build of the third step had written, in the words of either back end.
private struct LandedRows {
  let backend: Backend

  static func envelopes() throws -> [Envelope] {
    try [
      Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: 1),
      Sample.envelope(to: Sample.address(1), from: Sample.address(7), id: 2, relay: Sample.relay("beta")),
      Sample.envelope(to: Sample.address(1, device: 2), from: Sample.address(2), id: 3),
    ]
  }

  static func held() throws -> [OutgoingMessage] { try [1, 2].map { try Sample.outgoing($0) } }

  func statements() throws -> [String] {
    try [account(1, isActive: true), account(2, isActive: false), device(1, 1), device(1, 2), device(2, 1)]
      + Self.envelopes().map(message) + [peer("beta", "active"), peer("gamma", "suspended")]
      + [contact("beta", 7), contact("beta", 8), contact("gamma", 7), contact("gamma", 9)]
      + Self.held().map(outgoing) + charges()
  }

  private var isPostgres: Bool { backend == .postgres }

  private func key(_ number: AccountNumber) -> Int64 { isPostgres ? number.column : number.key }
  private func flag(_ value: Bool) -> String { isPostgres ? "\(value)" : value ? "1" : "0" }
  private func bytes(_ bytes: some Sequence<UInt8>) -> String {
    let digits = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    return isPostgres ? "'\\x\(digits)'" : "x'\(digits)'"
  }
  private func bytes(_ value: [UInt8]?) -> String { value.map { bytes($0) } ?? "NULL" }
  private func fingerprint(_ value: Fingerprint) -> String {
    isPostgres ? "encode(\(bytes(value.bytes)), 'hex')::uuid" : bytes(value.bytes)
  }

  private func account(_ index: Int, isActive: Bool) throws -> String {
    let number = try Sample.number(index)
    return """
      INSERT INTO accounts (\(isPostgres ? "account" : "number"), token, active, supports_sms, voice, identity_key)
      VALUES (\(key(number)), \(try bytes(Sample.token(number).bytes)), \(flag(isActive)), \(flag(true)), \(flag(false)),
        \(bytes(Array("identity".utf8))))
      """
  }

  private func device(_ index: Int, _ id: Int) throws -> String {
    """
    INSERT INTO devices (account, \(isPostgres ? "device" : "id"), password_salt, password_hash, signaling_key,
      registration_id, fetches_messages, name, has_signed_prekey, last_seen, created)
    VALUES (\(key(try Sample.number(index))), \(id), \(bytes(Array("salt".utf8))), \(bytes(Array("hash".utf8))),
      \(bytes(Array("signaling".utf8))), \(70 + id), \(flag(true)), \(bytes(Array("phone \(id)".utf8))), \(flag(id > 1)),
      \(Sample.noon.millis), \(Sample.noon.millis))
    """
  }

  private func message(_ envelope: Envelope) throws -> String {
    let columns =
      isPostgres
      ? "sequence, day, type, source, source_device, relay, sent"
      : "arrived_day, type, source, source_device, relay, timestamp"
    let arrival =
      isPostgres ? "nextval('message_sequence'), (now() AT TIME ZONE 'UTC')::date" : "\(Sample.noon.day)"
    return """
      INSERT INTO messages (account, device, \(columns), message, content, fingerprint)
      VALUES (\(key(envelope.destination.account)), \(envelope.destination.device.value), \(arrival),
        \(envelope.type.rawValue), \(key(envelope.source.account)), \(envelope.source.device.value),
        \(envelope.relay.map { "'\($0.text)'" } ?? "NULL"), \(envelope.timestamp.millis), \(bytes(envelope.message)),
        \(bytes(envelope.content)), \(fingerprint(envelope.fingerprint)))
      """
  }

  private func peer(_ name: String, _ state: String) throws -> String {
    let peer = try Sample.peer(name)
    return """
      INSERT INTO peers (name, url, ca_certificate, state, scopes, added, holds_messages, contacts_mode, contacts_pass,
        contacts_begun, contacts_mark, statement_sequence)
      VALUES ('\(name)', '\(peer.url)', \(bytes(peer.caCertificate)), '\(state)', 'directory messages',
        \(Sample.noon.millis), \(flag(true)), 'copy', 4, 5, \(bytes(Array("mark".utf8))), 3)
      """
  }

  private func contact(_ peer: String, _ index: Int) throws -> String {
    """
    INSERT INTO \(isPostgres ? "peer_contacts" : "contacts") (peer, token, supports_sms, voice, pass)
    VALUES ('\(peer)', \(bytes(try Sample.token(index).bytes)), \(flag(true)), \(flag(false)), 4)
    """
  }

  private func outgoing(_ message: OutgoingMessage) throws -> String {
    let row = OutboxRow(message)
    return """
      INSERT INTO outbox (peer, account, device, destination, covers_master_only, bundle, bytes, fingerprint, accepted,
        not_before)
      VALUES ('\(message.relay.text)', \(key(message.source.account)), \(message.source.device.value),
        \(key(message.submission.destination)), \(flag(row.coversMasterOnly)), \(bytes(row.bundle)),
        \(message.byteCount), \(fingerprint(row.fingerprint)), \(Sample.noon.millis), \(Sample.noon.millis))
      """
  }

  /// SQLite's triggers keep them.
  private func charges() -> [String] {
    guard isPostgres else { return [] }
    return [
      "INSERT INTO outbox_charges (peer, messages, bytes) SELECT peer, count(*), sum(bytes) FROM outbox GROUP BY peer"
    ]
  }
}

@Suite struct LandedSchemaTests {
  /// Runs `body` on a store of the third step with rows of that build.
  private static func withLandedStore(_ backend: Backend, _ body: (Store) async throws -> Void) async throws {
    let (rows, clock) = (try LandedRows(backend: backend).statements(), ManualClock(Sample.noon))
    switch backend {
    case .embedded:
      try await withTemporaryFolder { folder in
        let storage = try EmbeddedStorage(path: folder + "/relay.sqlite", clock: clock.wall)
        try await storage.migrate(to: 3) { _ in }
        try await storage.write { db in for row in rows { try db.run(row) } }
        try await body(Store(storage: storage, clock: clock))
        await storage.close()
      }
    case .postgres:
      try await withPostgres(migrated: false) { storage, server, url in
        try PostgresUpgradeTests.migrate(to: 3, on: server, in: url)
        try server.sql(rows.joined(separator: ";\n"), in: url)
        try await body(Store(storage: storage, clock: clock))
      }
    }
  }

  @Test("What lay in a database of the third step is all there in today's", arguments: Backend.allCases)
  func keeps(_ backend: Backend) async throws {
    try await Self.withLandedStore(backend) { store in
      guard case .tooOld(version: 3, needed: 4...) = try await store.storage.compatibility() else {
        Issue.record("a store of the third step counts as today's")
        return
      }
      // Twice: whoever comes second finds nothing to do.
      for _ in 0..<2 { try await store.storage.migrate { _ in } }
      guard case .usable = try await store.storage.compatibility() else {
        Issue.record("the store is not usable")
        return
      }
      try await Self.expectAccounts(store)
      try await Self.expectMailboxes(store)
      try await Self.expectPeers(store)
      try await Self.expectOutbox(store)
    }
  }

  private static func expectAccounts(_ store: Store) async throws {
    let account = try #require(try await store.storage.account(Sample.number(1)))
    #expect(account.identityKey == "identity")
    #expect(account.devices.map(\.id.value) == [1, 2])
    #expect(account.devices.map(\.name) == ["phone 1", "phone 2"])
    #expect(account.devices.map(\.registrationID) == [71, 72])
    #expect(try await store.storage.accountCount() == 2)
    // Ours that is active, and what the active peer lists.
    var reader = try await DirectoryReader(of: store.storage)
    let expected = try [Sample.token(Sample.number(1)), Sample.token(7), Sample.token(8)]
    let entries = try await store.storage.entries(for: expected + [Sample.token(Sample.number(2)), Sample.token(9)])
    #expect(Set(entries.map(\.token)) == Set(expected))
    #expect(reader.entries.count == expected.count)
    try await store.register(Sample.registration(2))
    #expect(try await reader.follow() == 1)
    #expect(try await reader.isCurrent())
  }

  private static func expectMailboxes(_ store: Store) async throws {
    let envelopes = try LandedRows.envelopes()
    let (first, second) = (envelopes[0].destination, envelopes[2].destination)
    #expect(try await store.mailbox(first).map(\.envelope) == Array(envelopes[..<2]))
    #expect(try await store.mailbox(second).map(\.envelope) == [envelopes[2]])
    // What is sent again is known, and what comes is behind what was there.
    let later = try Sample.envelope(to: Sample.address(1), from: Sample.address(2), id: 9)
    try await store.storage.append([envelopes[0], later])
    #expect(try await store.mailbox(first).map(\.envelope) == Array(envelopes[..<2]) + [later])
  }

  private static func expectPeers(_ store: Store) async throws {
    let (storage, beta, gamma) = (store.storage, try Sample.relay("beta"), try Sample.relay("gamma"))
    let peers = try await storage.peers()
    #expect(peers.map(\.name) == [beta, gamma])
    #expect(peers.map(\.state) == [.active, .suspended])
    #expect(peers.allSatisfy { $0.policy.holdsMessages && $0.trust.sequence == 3 })
    let pass = try await storage.contactsPass(of: beta)
    #expect(pass.pass == 4 && pass.mark == "mark")
    #expect(try await storage.claimants(of: Sample.token(7)) == [beta])
    for name in [beta, gamma] { #expect(try await storage.contactCount(of: name) == 2) }
    let listed = try [8, 9, 10].map {
      ListedAccount(token: try Sample.token($0), isInactive: $0 == 8, supportsSMS: true, voice: true)
    }
    try await storage.applyContactChanges(listed, of: beta, mark: "next")
    #expect(try await storage.contactCount(of: beta) == 3)
    #expect(try await storage.beginContacts(of: beta) == 6)
  }

  private static func expectOutbox(_ store: Store) async throws {
    let messages = try LandedRows.held()
    #expect(try await store.outbox().map(\.message) == messages)
    let usage = try await store.storage.outboxUsage()
    #expect(usage.map(\.relay) == [try Sample.relay("beta")])
    #expect(usage.map(\.messages) == [2])
    // The same again is held already, another one comes behind.
    #expect(try await store.hold(messages[0]))
    #expect(try await store.hold(Sample.outgoing(3)))
    #expect(try await store.outbox().map(\.message) == messages + [Sample.outgoing(3)])
    #expect(try await store.storage.removePeer(Sample.relay("beta")) == .messagesWait)
  }
}
