// The feed of changes to our own listing, which a trigger numbers (`DirectoryTriggers`).

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func listingCursor() async throws(StoreError) -> ListingCursor {
    try await read { db in try Self.cursor(in: db) }
  }

  /// Writers take turns, so that a change that is seen has none before it that is not seen yet.
  package func listingChanges(after cursor: ListingCursor, limit: Int) async throws(StoreError) -> ListingChanges? {
    let tokens = try await tokens()
    return try await read { db in
      let end = try Self.cursor(in: db)
      guard cursor.generation == end.generation, cursor.revision <= end.revision,
        try cursor.revision >= db.revision(.listingPruned)
      else { return nil }
      let rows = try db.rows(
        """
        SELECT * FROM (
          SELECT token, active AND discoverable, supports_sms, voice, listing_revision FROM accounts
          WHERE listing_revision > 0 AND listing_revision > \(cursor.revision) ORDER BY listing_revision LIMIT \(limit)
        )
        UNION ALL
        SELECT * FROM (
          SELECT token, 0, 0, 0, listing_revision FROM unlisted_tokens
          WHERE listing_revision > \(cursor.revision) ORDER BY listing_revision LIMIT \(limit)
        )
        ORDER BY listing_revision LIMIT \(limit)
        """)
      let last = try rows.last?.integer(4) ?? cursor.revision
      return try ListingChanges(
        accounts: rows.map { try ListedAccount(row: $0, tokens) },
        cursor: ListingCursor(generation: end.generation, revision: last),
        isPartial: rows.count == limit)
    }
  }

  private static func cursor(in db: Database) throws -> ListingCursor {
    try ListingCursor(generation: db.revision(.listingGeneration), revision: db.revision(.listing))
  }

  package func localEntries(for tokens: [ContactToken]) async throws(StoreError) -> [ListedAccount] {
    let wanted = Set(tokens)
    guard !wanted.isEmpty else { return [] }
    let sealer = try await self.tokens()
    return try await read { db in
      try wanted.compactMap { token in
        try db.row(
          """
          SELECT token, 1, supports_sms, voice FROM accounts
          WHERE token = \(sealer.seal(token)) AND active AND discoverable LIMIT 1
          """
        ).map { try ListedAccount(row: $0, sealer) }
      }
    }
  }
}

// MARK: - What peers list, as it changes, and who lists what

extension SQLiteStorage {
  package func applyContactChanges(
    _ changes: [ListedAccount], of peer: RelayName, mark: String
  ) async throws(StoreError) {
    let (now, tokens) = (clock.now(), try await tokens())
    try await write { db in
      guard let pass = try Self.copiedPass(of: peer, in: db) else { return }
      try Self.merge(changes, tokens, of: peer, pass: pass, now: now, in: db)
      try db.run("UPDATE peers SET contacts_mark = \(opaque: mark) WHERE name = \(peer)")
    }
  }

  /// Triggers keep them (`DirectoryTriggers`).
  package func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts {
    try await read { db in
      let found = try db.row("SELECT contacts, unlisted FROM contact_counts WHERE peer = \(peer)")
      return try found.map(ContactCounts.init(row:)) ?? .none
    }
  }

  package func recountContacts(of peer: RelayName) async throws(StoreError) {
    try await write { db in
      try db.run(
        """
        UPDATE contact_counts
        SET (contacts, unlisted) = (SELECT count(*), count(unlisted) FROM peer_contacts WHERE peer = \(peer))
        WHERE peer = \(peer)
        """)
    }
  }

  package func keptContacts(
    among tokens: [ContactToken], of peer: RelayName
  ) async throws(StoreError) -> Set<ContactToken> {
    let sealer = try await self.tokens()
    return try await read { db in
      try Set(tokens).filter { token in
        try db.row("SELECT 1 FROM peer_contacts WHERE peer = \(peer) AND token = \(sealer.seal(token))") != nil
      }
    }
  }

  package func claimants(of token: ContactToken) async throws(StoreError) -> [RelayName] {
    let stored = try await tokens().seal(token)
    return try await read { db in
      try db.rows(
        """
        SELECT c.peer FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
        WHERE c.token = \(stored) AND p.state = 'active' AND p.contacts_mode <> 'none' ORDER BY c.since, c.peer
        """
      ).map { try $0.relay(0) }
    }
  }
}

extension ContactCounts {
  /// Two columns: all claims, and the unlisted ones among them.
  fileprivate init(row: Fields) throws(StoreError) {
    let (claims, unlisted) = (Int(try row.integer(0)), Int(try row.integer(1)))
    self.init(listed: claims - unlisted, unlisted: unlisted)
  }
}
