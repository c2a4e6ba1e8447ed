// The feed of changes to the whole directory, which triggers write, and what the directory says just now: its rule is
// the view `directory_entries` (`DirectorySchema`).

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func directoryPlace() async throws(StoreError) -> DirectoryPlace {
    try await read { db in try Self.directoryEnd(in: db) }
  }

  /// A change that is seen has none before it that is not seen yet: nothing is ever read again. A place is named by the
  /// change that comes next.
  package func directoryChanges(after place: DirectoryPlace, limit: Int) async throws(StoreError) -> DirectoryChanges? {
    let tokens = try await tokens()
    return try await read { db in
      let end = try Self.directoryEnd(in: db)
      let pruned = try UInt64(clamping: db.revision(.directoryPruned))
      guard place.generation == end.generation, place.revision > pruned, place.revision <= end.revision else {
        return nil
      }
      let changes = try db.rows(
        """
        SELECT id, token, peer FROM directory_changes WHERE id >= \(Int64(clamping: place.revision))
        ORDER BY id LIMIT \(limit)
        """
      ).map { try DirectoryChange(row: $0, tokens) }
      let isPartial = changes.count == limit
      let last = isPartial ? changes.last?.revision : nil
      let next = DirectoryPlace(generation: end.generation, revision: last.map { $0 + 1 } ?? end.revision)
      return DirectoryChanges(changes: changes, next: next, fence: next, isPartial: isPartial)
    }
  }

  package func recentDirectoryChanges(limit: Int) async throws(StoreError) -> (
    changes: [DirectoryChange], since: DirectoryPlace
  ) {
    let tokens = try await tokens()
    return try await read { db in
      let changes = try db.rows(
        """
        SELECT id, token, peer FROM (SELECT id, token, peer FROM directory_changes ORDER BY id DESC LIMIT \(limit))
        ORDER BY id
        """
      ).map { try DirectoryChange(row: $0, tokens) }
      var since = try UInt64(clamping: db.revision(.directoryPruned)) + 1
      if changes.count == limit, let first = changes.first { since = first.revision }
      return (changes, DirectoryPlace(generation: try db.revision(.listingGeneration), revision: since))
    }
  }

  package func pruneDirectoryChanges(olderThan days: Int) async throws(StoreError) {
    while true {
      let count = try await write { db in
        // By the clock that wrote them.
        let last = try db.row(
          """
          SELECT max(id) FROM (SELECT id, at FROM directory_changes ORDER BY id LIMIT \(Self.prunedRowsMax))
          WHERE at < 1000 * (CAST(strftime('%s', 'now') AS INTEGER) - 86400 * \(days))
          """)
        guard let last = last?.optionalInteger(0) else { return 0 }
        try db.run("DELETE FROM directory_changes WHERE id <= \(last)")
        let count = db.changesCount
        try db.set(.directoryPruned, to: last)
        return count
      }
      guard count >= Self.prunedRowsMax else { return }
    }
  }

  private static let prunedRowsMax = 10_000

  /// SQLite remembers the last number past the rows themselves.
  static func directoryEnd(in db: Database) throws -> DirectoryPlace {
    let last = try db.row("SELECT seq FROM sqlite_sequence WHERE name = 'directory_changes'")?.integer(0) ?? 0
    return try DirectoryPlace(generation: db.revision(.listingGeneration), revision: UInt64(clamping: last) + 1)
  }
}

extension DirectoryChange {
  /// From id, token, peer.
  fileprivate init(row: Fields, _ tokens: TokenSealer) throws(StoreError) {
    let revision = UInt64(clamping: try row.integer(0))
    if let peer = try row.optionalRelay(2) {
      self.init(.peer(peer), revision: revision)
    } else {
      self.init(.token(try tokens.open(row.token(1))), revision: revision)
    }
  }
}

// MARK: - The directory just now

extension SQLiteStorage {
  package func readDirectory(
    _ firstBytes: ClosedRange<UInt8>, _ take: @escaping @Sendable ([DirectoryEntry]) -> Void
  ) async throws(StoreError) -> DirectoryPlace {
    let tokens = try await tokens()
    return try await read { db in
      let place = try Self.directoryEnd(in: db)
      var batch: [DirectoryEntry] = []
      let rows = try Row.fetchCursor(
        db.cachedStatement(sql: "SELECT token, peer, supports_sms, voice FROM directory_entries"))
      while let row = try rows.next() {
        let entry = try DirectoryEntry(row: Fields(row: row), tokens)
        guard firstBytes.contains(UInt8(truncatingIfNeeded: entry.token.high >> 56)) else { continue }
        batch.append(entry)
        guard batch.count >= Self.batchSize else { continue }
        take(batch)
        batch = []
      }
      if !batch.isEmpty { take(batch) }
      return place
    }
  }

  /// Entries handed over in one call.
  private static let batchSize = 10_000

  package func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry] {
    let wanted = Set(tokens)
    guard !wanted.isEmpty else { return [] }
    let sealer = try await self.tokens()
    return try await read { db in
      try wanted.compactMap { token in
        try db.row(
          """
          SELECT token, peer, supports_sms, voice FROM directory_entries WHERE token = \(sealer.seal(token)) LIMIT 1
          """
        ).map { try DirectoryEntry(row: $0, sealer) }
      }
    }
  }

  /// If two accounts have one token, which is next to impossible, one counts.
  package func directoryEntries(in range: DirectoryRange) async throws(StoreError) -> [DirectoryEntry] {
    let tokens = try await tokens()
    return try await read { db in
      let found = try db.rows(
        """
        SELECT token, peer, supports_sms, voice FROM directory_entries
        WHERE token >= \(range.lowerBound) AND token < \(range.upperBound)
        """
      ).map { try DirectoryEntry(row: $0, tokens) }
      return Array(Dictionary(found.map { ($0.token, $0) }) { first, _ in first }.values)
    }
  }

  package func directoryDigest(of range: DirectoryRange) async throws(StoreError) -> DirectoryDigest {
    DirectoryDigest(of: try await directoryEntries(in: range))
  }

  package func contactTokens(of peer: RelayName, after token: ContactToken?, limit: Int) async throws(StoreError)
    -> [ContactToken]
  {
    let tokens = try await tokens()
    let after = try token.map { token throws(StoreError) in try tokens.seal(token) } ?? .beforeAll
    return try await read { db in
      try db.rows(
        "SELECT token FROM peer_contacts WHERE peer = \(peer) AND token > \(after) ORDER BY token LIMIT \(limit)"
      ).map { try tokens.open($0.token(0)) }
    }
  }
}

extension DirectoryEntry {
  /// From token, peer, supports_sms, voice.
  fileprivate init(row: Fields, _ tokens: TokenSealer) throws(StoreError) {
    self.init(
      token: try tokens.open(row.token(0)), relay: try row.optionalRelay(1), supportsSMS: try row.flag(2),
      voice: try row.flag(3))
  }
}
