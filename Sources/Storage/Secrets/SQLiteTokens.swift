// How contact tokens lie in the file: each statement with tokens asks this first (`TokenSealer`).

import GRDB
package import RelayCore

extension SQLiteStorage {
  /// - Throws: `.unavailable` while they are being sealed; `.corrupted` where the key does not open.
  func tokens() async throws(StoreError) -> TokenSealer {
    if let known = knownTokens.value { return known }
    return knownTokens.remember(try await tokenState().tokens(sealer))
  }

  package func contactSealing() async throws(StoreError) -> ContactSealing {
    try await tokenState().sealing(sealer)
  }

  package func directoryFileKey() async throws(StoreError) -> SecretBytes? { try await tokens().fileKey }

  func tokenState() async throws(StoreError) -> TokenState {
    try await read { db in try TokenState(in: db) }
  }
}

extension TokenState {
  init(in db: Database) throws {
    self.init(
      sealedKey: try SQLiteStorage.serverSecret(Self.keyName, in: db),
      isUnderWay: try SQLiteStorage.serverSecret(Self.progressName, in: db) != nil)
  }
}

extension Database {
  /// In which there are tokens.
  static let tokenTables = [
    "accounts", "peer_contacts", "directory_changes", "oblivious_outputs", "unlisted_tokens",
  ]

  /// As a server secret, unless there is one under that name.
  func store(_ secret: [UInt8], as name: String) throws {
    try run("INSERT INTO server_secrets (name, secret) VALUES (\(name), \(secret)) ON CONFLICT (name) DO NOTHING")
  }

  /// From then on a process that did not hear of it is refused, and damages nothing. The feed needs no check:
  /// triggers take its tokens from the other tables.
  func takeSealedTokensAlone() throws {
    for (table, events) in [
      ("accounts", ["INSERT", "UPDATE OF token"]), ("peer_contacts", ["INSERT"]), ("oblivious_outputs", ["INSERT"]),
    ] {
      for (index, event) in events.enumerated() {
        try execute(
          sql: """
            CREATE TRIGGER IF NOT EXISTS \(table)_sealed_\(index) BEFORE \(event) ON \(table)
            WHEN length(NEW.token) <> \(TokenSealer.sealedBytes)
            BEGIN SELECT RAISE(ABORT, 'contact tokens are sealed here'); END
            """)
      }
    }
  }
}
