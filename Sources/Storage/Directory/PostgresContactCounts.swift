// How many contacts of a peer are kept. Triggers count them (`DirectorySchema`).

package import RelayCore

extension PostgresStorage {
  package func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts {
    try await counts(of: peer).counts
  }

  private func counts(of peer: RelayName) async throws(StoreError) -> (counts: ContactCounts, revision: Int64) {
    let result = try await read(
      "contact_counts", "SELECT contacts, unlisted, revision FROM contact_counts WHERE peer = \(peer)")
    let found = try result.first { (row) throws(StoreError) in
      (counts: try ContactCounts(row: &row), revision: try row.bigint())
    }
    return found ?? (.none, 0)
  }

  /// Some at a time, and no lock in between: what adds or removes contacts raises the revision in its own transaction,
  /// so that what was counted beside it is not written.
  package func recountContacts(of peer: RelayName) async throws(StoreError) {
    let revision = try await counts(of: peer).revision
    var (claims, unlisted, last): (Int64, Int64, [UInt8]) = (0, 0, [])
    while let page = try await countContacts(of: peer, behind: last) {
      (claims, unlisted, last) = (claims + page.claims, unlisted + page.unlisted, page.last)
    }
    let counted = (claims: PostgresParameter(claims), unlisted: PostgresParameter(unlisted))
    _ = try await write(
      "recount_contacts",
      """
      UPDATE contact_counts SET contacts = \(counted.claims), unlisted = \(counted.unlisted), revision = revision + 1
      WHERE peer = \(peer) AND revision = \(revision)
        AND (contacts, unlisted) <> (\(counted.claims), \(counted.unlisted))
      """)
  }

  /// - Parameter last: a token as it is stored, or nothing.
  /// - Returns: how many lie behind `last`, counted to a bound, and the last of them; nil when none does.
  private func countContacts(
    of peer: RelayName, behind last: [UInt8]
  ) async throws(StoreError) -> (claims: Int64, unlisted: Int64, last: [UInt8])? {
    let result = try await readBulk(
      "count_contacts",
      """
      WITH page AS MATERIALIZED (
        SELECT token, unlisted FROM peer_contacts WHERE peer = \(peer) AND token > \(last)
        ORDER BY token LIMIT \(Self.countedMax)
      )
      SELECT count(*), count(unlisted), (SELECT token FROM page ORDER BY token DESC LIMIT 1) FROM page
      """)
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    let (claims, unlisted) = (try row.bigint(), try row.bigint())
    guard claims > 0, let reached = row.optionalBytes() else { return nil }
    return (claims, unlisted, reached)
  }

  private static let countedMax: Int64 = 100_000

  /// First of all in a transaction that adds or removes contacts of a peer. The peer's row against its removal, or the
  /// end of its copy, which would leave contacts of nobody behind, and since whether the feed hears of them depends on
  /// it; then their count. Two that lock in different orders wait for each other.
  ///
  /// - Parameter changesPeer: locks the peer's row as firmly as a later step needs it.
  static func contactLocks(of peer: RelayName, changesPeer: Bool = false) -> [PostgresStep] {
    let peerLock =
      changesPeer
      ? PostgresStep("lock_peer", "SELECT 1 FROM peers WHERE name = \(peer) FOR NO KEY UPDATE")
      : PostgresStep("share_peer", "SELECT 1 FROM peers WHERE name = \(peer) FOR SHARE")
    return [
      peerLock,
      PostgresStep("lock_contact_count", "SELECT 1 FROM contact_counts WHERE peer = \(peer) FOR NO KEY UPDATE"),
    ]
  }
}

extension ContactCounts {
  /// Two columns: all claims, and the unlisted ones among them.
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    let (claims, unlisted) = (Int(try row.bigint()), Int(try row.bigint()))
    self.init(listed: claims - unlisted, unlisted: unlisted)
  }
}
