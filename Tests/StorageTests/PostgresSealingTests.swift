// Sealing the contact tokens of a database, with what its server makes of it.

import Foundation
import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Storage

@Suite(.tags(.stores)) struct PostgresSealingTests {
  private static let key = SecretSealer(current: SecretBytes([UInt8](repeating: 1, count: 32)))

  /// 12,000 accounts, of whom each has changed, and 6,000 contacts of a peer: several portions of each table.
  private static func fill(_ server: PostgresServer, in url: String) throws {
    try server.sql(
      """
      INSERT INTO accounts (account, token, active, supports_sms, voice)
      SELECT n, substring(sha256(n::text::bytea), 1, 10), n % 10 > 0, true, false FROM generate_series(1, 12000) AS n;
      INSERT INTO peers (name, url, ca_certificate, state, scopes, added)
      VALUES ('beta', 'https://beta.example:8443', '\\x01', 'active', 'directory', 0);
      INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass)
      SELECT 'beta', substring(sha256(n::text::bytea), 1, 10), false, true, 1 FROM generate_series(11000, 17000) AS n;
      """, in: url)
  }

  private static func open(
    _ url: String, _ sealer: SecretSealer, _ body: (PostgresStorage) async throws -> Void
  ) async throws {
    let storage = try await PostgresStorage.connected(to: url, sealer: sealer)
    do {
      try await body(storage)
    } catch {
      await storage.close()
      throw error
    }
    await storage.close()
  }

  private static func withDatabase(_ body: (PostgresServer, String) async throws -> Void) async throws {
    await Turns.postgres.take()
    defer { Turns.postgres.giveBack() }
    let server = try await Loopback.blocking { try PostgresServer.shared() }
    let url = try await Loopback.blocking { try server.createDatabase() }
    try await open(url, .none) { storage in try await storage.migrate { _ in } }
    try await body(server, url)
  }

  private static func refusal(
    _ storage: PostgresStorage, progress: @Sendable () -> Void = {}
  ) async -> ContactSealingFailure? {
    do throws(ContactSealingFailure) {
      try await storage.sealContacts { _ in progress() }
      return nil
    } catch {
      return error
    }
  }

  /// The directory as every reader sees it, and the feeds.
  private static func state(_ url: String, _ sealer: SecretSealer) async throws -> (
    reader: [ContactToken: DirectoryEntry], feed: [DirectoryChange], cursor: ListingCursor
  ) {
    let found = Collected<(reader: [ContactToken: DirectoryEntry], feed: [DirectoryChange], cursor: ListingCursor)>()
    try await open(url, sealer) { storage in
      let reader = try await DirectoryReader(of: storage)
      let changes = try await storage.recentDirectoryChanges(limit: 100_000).changes
      found.add((reader.entries, changes, try await storage.listingCursor()))
    }
    return try #require(found.values.first)
  }

  /// Tokens that can be read in a dump, as bytes or in hexadecimal digits.
  private static func readable(_ server: PostgresServer, in url: String) throws -> Int {
    let dump = try server.dump(url)
    return try server.sql(
      "SELECT encode(substring(sha256(n::text::bytea), 2, 9), 'hex') FROM generate_series(1, 17000, 97) AS n", in: url
    )
    .split(separator: "\n").count { dump.contains($0) }
  }

  @Test func `an interrupted sealing goes on`() async throws {
    try await Self.withDatabase { server, url in
      try Self.fill(server, in: url)
      let before = try await Self.state(url, .none)
      #expect(try Self.readable(server, in: url) > 100)
      // Again and again, after one portion each.
      var rounds = 0
      while rounds < 20 {
        rounds += 1
        let isDone = try await Self.sealOnePortion(url)
        if isDone { break }
        let sealing = try await Self.sealing(url)
        #expect(sealing == .underWay)
      }
      #expect(rounds > 3 && rounds < 20)
      let after = try await Self.state(url, Self.key)
      #expect(after.reader == before.reader)
      #expect(after.feed == before.feed)
      #expect(after.cursor == before.cursor)
      #expect(try Self.readable(server, in: url) == 0)
      // No trigger stays switched off.
      let off = try server.sql("SELECT count(*) FROM pg_trigger WHERE tgenabled <> 'O'", in: url)
      #expect(off == "0")
    }
  }

  /// - Returns: whether nothing was left to do.
  private static func sealOnePortion(_ url: String) async throws -> Bool {
    let outcome = Collected<Bool>()
    try await open(url, key) { storage in
      let work = Task { await refusal(storage) { withUnsafeCurrentTask { $0?.cancel() } } }
      outcome.add(await work.value == nil)
    }
    return outcome.values.first == true
  }

  private static func sealing(_ url: String) async throws -> ContactSealing? {
    let found = Collected<ContactSealing>()
    try await open(url, key) { storage in
      found.add(try await storage.contactSealing())
      // No reader works on it meanwhile.
      let contact = ContactToken(high: 1, low: 2)
      await #expect(throws: StoreError.self) { try await storage.entries(for: [contact]) }
    }
    return found.values.first
  }

  @Test(arguments: ["", "?application_name=other"])
  func `another connection keeps the sealing from beginning`(_ name: String) async throws {
    try await Self.withDatabase { server, url in
      try Self.fill(server, in: url)
      try await Self.open(url + name, .none) { other in
        try await other.ping()
        let found = try await Self.refused(beside: other, in: url)
        // A process that starts again meanwhile finds nothing of it.
        #expect(found.allSatisfy { $0 == .plain } && found.count > 1)
        // It goes on as before.
        let contact = ContactToken(high: 1, low: 2)
        #expect(try await other.entries(for: [contact]).isEmpty)
      }
      #expect(try Self.secrets(server, in: url) == "0")
    }
  }

  @Test func `a sealing that sealed nothing yet is taken back beside others`() async throws {
    try await Self.withDatabase { server, url in
      try Self.fill(server, in: url)
      // As a command leaves it that died before its first portion.
      let key = try #require(try TokenState.newKey(Self.key)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
      try server.sql(
        """
        INSERT INTO server_secrets VALUES ('contact-token-key', '\\x\(key.joined())'), ('contact-token-sealing', '\\x01');
        """, in: url)
      try await Self.open(url, Self.key) { other in
        #expect(try await other.contactSealing() == .underWay)
        _ = try await Self.refused(beside: other, in: url)
        #expect(try await other.contactSealing() == .plain)
      }
      #expect(try Self.secrets(server, in: url) == "0")
    }
  }

  @Test func `a partly sealed store is not taken back`() async throws {
    try await Self.withDatabase { server, url in
      try Self.fill(server, in: url)
      let isDone = try await Self.sealOnePortion(url)
      #expect(!isDone)
      try await Self.open(url, Self.key) { other in
        _ = try await Self.refused(beside: other, in: url)
        #expect(try await other.contactSealing() == .underWay)
      }
      #expect(try Self.secrets(server, in: url) == "2")
    }
  }

  /// - Returns: what another process saw of it while it was refused.
  private static func refused(beside other: PostgresStorage, in url: String) async throws -> [ContactSealing] {
    var seen: [ContactSealing] = []
    try await open(url, key) { storage in
      let refusals = Collected<ContactSealingFailure?>()
      let work = Task { refusals.add(await refusal(storage)) }
      while refusals.values.isEmpty { seen.append(try await other.contactSealing()) }
      await work.value
      guard case .inUse(let connections)?? = refusals.values.first else {
        Issue.record("sealed beside another process")
        return
      }
      #expect(connections > 0)
    }
    return seen
  }

  private static func secrets(_ server: PostgresServer, in url: String) throws -> String {
    try server.sql("SELECT count(*) FROM server_secrets WHERE name LIKE 'contact-token%'", in: url)
  }

  @Test func `a table's rewrite may take days`() async throws {
    try await withPostgres(migrated: false) { storage, _, _ in
      let limit = try await storage.maintenance.run(limit: PostgresStorage.statementMax) {
        connection throws(StoreError) in
        let found = try await connection.perform([PostgresStep(.once("SELECT current_setting('statement_timeout')"))])
        var row = found.cursor(row: 0)
        return try row.text()
      }
      #expect(limit == "7d")
    }
  }

  @Test func `an unfinished new store is sealed by the next run`() async throws {
    try await withPostgres(migrated: false, sealer: Self.key) { storage, server, url in
      // The last step fails.
      try server.sql("CREATE TABLE oblivious_outputs (token bytea)", in: url)
      await #expect(throws: StoreError.self) { try await storage.migrate { _ in } }
      #expect(try await storage.migrations().allSatisfy { $0.applied == nil })
      try server.sql("DROP TABLE oblivious_outputs", in: url)
      try await storage.migrate { _ in }
      #expect(try await storage.contactSealing() == .sealed)
    }
  }

  @Test func `a sealed database takes no plain token`() async throws {
    try await withPostgres(sealer: Self.key) { storage, server, url in
      let store = Store(storage: storage, clock: ManualClock(Sample.noon))
      try await store.registerAccounts(200)
      let dump = try server.dump(url)
      for index in 0..<200 {
        let token = try Sample.token(Sample.number(index)).bytes.dropFirst()
        let hex = token.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(!dump.contains(hex))
      }
      for table in [
        "accounts (account, token, active, supports_sms, voice) VALUES (1, '0123456789', true, true, true)",
        "peer_contacts (peer, token, supports_sms, voice, pass) VALUES ('beta', '0123456789', true, true, 1)",
        "directory_changes (token) VALUES ('0123456789')",
      ] {
        #expect(throws: PostgresServer.Failure.self, "\(table)") { try server.sql("INSERT INTO \(table)", in: url) }
      }
    }
  }
}
