// The feed of changes to our own listing. A trigger numbers them (`DirectoryTriggers`).

package import RelayCore

extension PostgresStorage {
  package func listingCursor() async throws(StoreError) -> ListingCursor {
    let result = try await read(
      "listing_cursor",
      """
      SELECT g.value, l.value FROM revisions AS g CROSS JOIN revisions AS l
      WHERE g.subject = 'listing-generation' AND l.subject = 'listing'
      """)
    guard let cursor = try result.first(ListingCursor.init(row:)) else {
      throw .corrupted(reason: "the table revisions lacks a row")
    }
    return cursor
  }

  /// One statement, so that place and changes are of one moment. A writer that takes a revision holds its row until
  /// the commit: a change that is seen has none before it that is not seen yet, and the reader may go on behind it. A
  /// change moves its account to the feed's end, so that no page ever holds one twice.
  package func listingChanges(after cursor: ListingCursor, limit: Int) async throws(StoreError) -> ListingChanges? {
    let tokens = try await tokens()
    let (revision, rows) = (PostgresParameter(cursor.revision), PostgresParameter(Int64(limit)))
    let result = try await readBulk(
      "listing_changes",
      """
      SELECT a.listing_revision, a.token, a.is_listed, a.supports_sms, a.voice
      FROM revisions AS g CROSS JOIN revisions AS l
      LEFT JOIN LATERAL (
        SELECT * FROM (
          (
            SELECT listing_revision, token, active AND discoverable AS is_listed, supports_sms, voice FROM accounts
            WHERE listing_revision > 0 AND listing_revision > \(revision)
            ORDER BY listing_revision LIMIT \(rows)
          )
          UNION ALL
          (
            SELECT listing_revision, token, false, false, false FROM unlisted_tokens
            WHERE listing_revision > \(revision) ORDER BY listing_revision LIMIT \(rows)
          )
        ) AS both_kinds
        ORDER BY listing_revision LIMIT \(rows)
      ) AS a ON true
      WHERE g.subject = 'listing-generation' AND g.value = \(cursor.generation)
        AND l.subject = 'listing' AND l.value >= \(revision)
        AND (SELECT value FROM revisions WHERE subject = 'listing-pruned') <= \(revision)
      ORDER BY a.listing_revision
      """)
    guard result.rowCount > 0 else { return nil }
    var accounts: [ListedAccount] = []
    var last = cursor.revision
    for index in result.rows {
      var row = result.cursor(row: index)
      // A row of NULLs says that nothing has changed.
      guard let revision = try row.optionalBigint() else { break }
      last = revision
      accounts.append(try ListedAccount(row: &row, tokens))
    }
    return ListingChanges(
      accounts: accounts, cursor: ListingCursor(generation: cursor.generation, revision: last),
      isPartial: accounts.count == limit)
  }

  package func localEntries(for tokens: [ContactToken]) async throws(StoreError) -> [ListedAccount] {
    guard !tokens.isEmpty else { return [] }
    let sealer = try await self.tokens()
    let stored = try sealer.seal(tokens)
    let result = try await readBulk(
      "local_entries",
      """
      SELECT token, true, supports_sms, voice FROM accounts
      WHERE token = ANY (\(each: stored)) AND active AND discoverable
      """)
    var entries: [ContactToken: ListedAccount] = [:]
    for entry in try result.all({ (row) throws(StoreError) in try ListedAccount(row: &row, sealer) }) {
      entries[entry.token] = entry
    }
    return Array(entries.values)
  }
}

extension ListingCursor {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(generation: try row.bigint(), revision: try row.bigint())
  }
}

extension ListedAccount {
  /// From token, whether the account is active and wants to be found, supports_sms, voice.
  init(row: inout PostgresRow, _ tokens: TokenSealer) throws(StoreError) {
    let (token, isActive) = (try tokens.open(row.token()), try row.boolean())
    let (supportsSMS, voice) = (try row.boolean(), try row.boolean())
    // Nothing more is told of hidden accounts.
    self.init(token: token, isInactive: !isActive, supportsSMS: isActive && supportsSMS, voice: isActive && voice)
  }
}
