// The feed of changes to the whole directory, which triggers write, and what the directory says just now: its rule is the
// view `directory_entries` (`DirectorySchema`).

import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
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
        "SELECT id, token, peer FROM directory_changes WHERE id >= ? ORDER BY id LIMIT ?",
        [Int64(clamping: place.revision), limit]
      ).map { try Self.directoryChange($0, tokens) }
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
        "SELECT id, token, peer FROM (SELECT id, token, peer FROM directory_changes ORDER BY id DESC LIMIT ?) ORDER BY id",
        [limit]
      ).map { try Self.directoryChange($0, tokens) }
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
          SELECT max(id) FROM (SELECT id, at FROM directory_changes ORDER BY id LIMIT ?)
          WHERE at < 1000 * (CAST(strftime('%s', 'now') AS INTEGER) - 86400 * ?)
          """, [Self.prunedRowsMax, days])
        guard let last = last?.optionalInteger(0) else { return 0 }
        try db.run("DELETE FROM directory_changes WHERE id <= ?", [last])
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

  /// From id, token, peer.
  private static func directoryChange(_ row: Fields, _ tokens: TokenSealer) throws -> DirectoryChange {
    let revision = try UInt64(clamping: row.integer(0))
    if let peer = try row.optionalRelay(2) { return DirectoryChange(.peer(peer), revision: revision) }
    return try DirectoryChange(.token(tokens.open(row.token(1))), revision: revision)
  }
}

// MARK: - The directory just now

extension EmbeddedStorage {
  package func readDirectory(
    _ take: @escaping @Sendable ([DirectoryEntry]) -> Void
  ) async throws(StoreError) -> DirectoryPlace {
    let tokens = try await tokens()
    return try await read { db in
      let place = try Self.directoryEnd(in: db)
      var batch: [DirectoryEntry] = []
      let rows = try Row.fetchCursor(
        db.cachedStatement(sql: "SELECT token, peer, supports_sms, voice FROM directory_entries"))
      while let row = try rows.next() {
        batch.append(try Self.directoryEntry(Fields(row: row), tokens))
        guard batch.count >= Self.batchSize else { continue }
        take(batch)
        batch = []
      }
      if !batch.isEmpty { take(batch) }
      return place
    }
  }

  /// Of one call of whoever takes them.
  private static let batchSize = 10_000

  package func entries(for tokens: [ContactToken]) async throws(StoreError) -> [DirectoryEntry] {
    let wanted = Set(tokens)
    guard !wanted.isEmpty else { return [] }
    let sealer = try await self.tokens()
    return try await read { db in
      try wanted.compactMap { token in
        try db.row(
          "SELECT token, peer, supports_sms, voice FROM directory_entries WHERE token = ? LIMIT 1",
          [sealer.seal(token).data]
        ).map { try Self.directoryEntry($0, sealer) }
      }
    }
  }

  /// Of two accounts of one token, which is next to impossible, one counts.
  package func directoryEntries(in range: DirectoryRange) async throws(StoreError) -> [DirectoryEntry] {
    let tokens = try await tokens()
    return try await read { db in
      let found = try db.rows(
        "SELECT token, peer, supports_sms, voice FROM directory_entries WHERE token >= ? AND token < ?",
        [Data(range.lowerBound), Data(range.upperBound)]
      ).map { try Self.directoryEntry($0, tokens) }
      return Array(Dictionary(found.map { ($0.token, $0) }) { first, _ in first }.values)
    }
  }

  package func directoryDigest(of range: DirectoryRange) async throws(StoreError) -> DirectoryDigest {
    DirectoryDigest(of: try await directoryEntries(in: range))
  }

  /// From token, peer, supports_sms, voice.
  private static func directoryEntry(_ row: Fields, _ tokens: TokenSealer) throws -> DirectoryEntry {
    try DirectoryEntry(
      token: tokens.open(row.token(0)), relay: row.optionalRelay(1), supportsSMS: row.flag(2), voice: row.flag(3))
  }

  package func contactTokens(of peer: RelayName, after token: ContactToken?, limit: Int) async throws(StoreError)
    -> [ContactToken]
  {
    let tokens = try await tokens()
    let after = try token.map { token throws(StoreError) in try tokens.seal(token) } ?? .beforeAll
    return try await read { db in
      try db.rows(
        "SELECT token FROM contacts WHERE peer = ? AND token > ? ORDER BY token LIMIT ?",
        [peer.text, after.data, limit]
      ).map { try tokens.open($0.token(0)) }
    }
  }
}
