// What the directory says just now: of some tokens, of a range, of a peer. Its rule is the view `directory_entries`
// (`DirectoryTriggers`).

package import RelayCore

extension PostgresStorage {
  package func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry] {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(tokens)
    return try Self.entries(
      in: await readFeed(
        .prepared(
          "entries",
          "SELECT token, peer, supports_sms, voice FROM directory_entries WHERE token = ANY ($1::bytea[])"),
        PostgresParameters(reserving: 20 + (4 + sealer.storedBytes) * stored.count) { $0.add(tokens: stored) }), sealer)
  }

  package func directoryEntries(in range: DirectoryRange) async throws(StoreError) -> [DirectoryEntry] {
    let tokens = try await tokens()
    return try Self.entries(
      in: await readFeed(
        .prepared(
          "directory_entries",
          """
          SELECT token, peer, supports_sms, voice FROM directory_entries
          WHERE token >= $1::bytea AND token < $2::bytea
          """), Self.bounds(of: range)), tokens)
  }

  /// Made here of the range's entries: what the store could sum up is sealed.
  package func directoryDigest(of range: DirectoryRange) async throws(StoreError) -> DirectoryDigest {
    DirectoryDigest(of: try await directoryEntries(in: range))
  }

  package func contactTokens(of peer: RelayName, after token: ContactToken?, limit: Int) async throws(StoreError)
    -> [ContactToken]
  {
    let sealer = try await tokens()
    let after = try token.map { token throws(StoreError) in try sealer.seal(token) }
    let result = try await readFeed(
      .prepared(
        "contact_tokens",
        """
        SELECT token FROM peer_contacts WHERE peer = $1::text AND token > $2::bytea
        ORDER BY token LIMIT $3::bigint
        """),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(token: after ?? .beforeAll)
        $0.add(bigint: Int64(limit))
      })
    return try Self.tokens(in: result, sealer)
  }

  /// From token, peer, supports_sms, voice. Of two accounts of one token, which is next to impossible, one counts.
  private static func entries(
    in result: PostgresResult, _ tokens: TokenSealer
  ) throws(StoreError) -> [DirectoryEntry] {
    let opened = try Self.tokens(in: result, tokens)
    var entries: [ContactToken: DirectoryEntry] = [:]
    entries.reserveCapacity(result.rowCount)
    for index in result.rows {
      var row = result.cursor(row: index)
      _ = try row.token()
      entries[opened[index]] = DirectoryEntry(
        token: opened[index], relay: try row.optionalRelayName(), supportsSMS: try row.boolean(),
        voice: try row.boolean())
    }
    return Array(entries.values)
  }

  /// From the first column.
  static func tokens(in result: PostgresResult, _ tokens: TokenSealer) throws(StoreError) -> [ContactToken] {
    var stored: [StoredToken] = []
    stored.reserveCapacity(result.rowCount)
    for index in result.rows {
      var row = result.cursor(row: index)
      stored.append(try row.token())
    }
    return try tokens.open(stored)
  }

  /// Two values: the first token of the range, and the first bytes that follow it, which in the last range are longer than
  /// a token.
  private static func bounds(of range: DirectoryRange) -> PostgresParameters {
    PostgresParameters {
      $0.add(bytea: range.lowerBound)
      $0.add(bytea: range.upperBound)
    }
  }
}

extension DirectoryRange {
  /// The bytes that every stored token of the range is at or above, byte by byte.
  var lowerBound: [UInt8] { [firstByte] }
  /// Those that every stored token of the range is below.
  var upperBound: [UInt8] {
    firstByte == .max ? [UInt8](repeating: .max, count: TokenSealer.sealedBytes + 1) : [firstByte + 1]
  }
}
