// The present state of the directory: of some tokens, of a range, of a peer. Its rule is the view `directory_entries`
// (`DirectoryTriggers`).

package import RelayCore

extension PostgresStorage {
  package func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry] {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(tokens)
    return try Self.entries(
      in: await readFeed(
        "entries",
        """
        \(reserving: 20 + (4 + sealer.storedBytes) * stored.count)\
        SELECT token, peer, supports_sms, voice FROM directory_entries WHERE token = ANY (\(each: stored))
        """), sealer)
  }

  package func directoryEntries(in range: DirectoryRange) async throws(StoreError) -> [DirectoryEntry] {
    let tokens = try await tokens()
    return try Self.entries(
      in: await readFeed(
        "directory_entries",
        """
        SELECT token, peer, supports_sms, voice FROM directory_entries
        WHERE token >= \(range.lowerBound) AND token < \(range.upperBound)
        """), tokens)
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
      "contact_tokens",
      """
      SELECT token FROM peer_contacts WHERE peer = \(peer) AND token > \(after ?? .beforeAll)
      ORDER BY token LIMIT \(Int64(limit))
      """)
    return try Self.tokens(in: result, sealer)
  }

  /// From token, peer, supports_sms, voice. If two accounts have one token, which is next to impossible, one counts.
  private static func entries(
    in result: PostgresResult, _ tokens: TokenSealer
  ) throws(StoreError) -> [DirectoryEntry] {
    let opened = try Self.tokens(in: result, tokens)
    var entries: [ContactToken: DirectoryEntry] = [:]
    entries.reserveCapacity(result.rowCount)
    for (index, token) in opened.enumerated() {
      var row = result.cursor(row: index)
      entries[token] = try DirectoryEntry(token, row: &row)
    }
    return Array(entries.values)
  }

  /// From the first column.
  static func tokens(in result: PostgresResult, _ tokens: TokenSealer) throws(StoreError) -> [ContactToken] {
    try tokens.open(result.all { (row) throws(StoreError) in try row.token() })
  }
}

extension DirectoryEntry {
  /// Four columns, of which the first is the stored form of `token`.
  fileprivate init(_ token: ContactToken, row: inout PostgresRow) throws(StoreError) {
    _ = try row.token()
    self.init(
      token: token, relay: try row.optionalRelayName(), supportsSMS: try row.boolean(), voice: try row.boolean())
  }
}

extension DirectoryRange {
  /// The bytes that every stored token of the range is at or above, byte by byte.
  var lowerBound: [UInt8] { [firstByte] }
  /// The bytes that every stored token of the range is below. In the last range they are longer than a token.
  var upperBound: [UInt8] {
    firstByte == .max ? [UInt8](repeating: .max, count: TokenSealer.sealedBytes + 1) : [firstByte + 1]
  }
}
