// How many contacts of a peer are kept. Triggers count them (`DirectorySchema`).

package import RelayCore

extension PostgresStorage {
  package func contactCounts(of peer: RelayName) async throws(StoreError) -> ContactCounts {
    try await counts(of: peer).counts
  }

  private func counts(of peer: RelayName) async throws(StoreError) -> (counts: ContactCounts, revision: Int64) {
    let result = try await read(
      .prepared("contact_counts", "SELECT contacts, unlisted, revision FROM contact_counts WHERE peer = $1::text"),
      PostgresParameters { $0.add(text: peer.text) })
    guard result.rowCount == 1 else { return (.none, 0) }
    var row = result.cursor(row: 0)
    let (claims, unlisted) = (Int(try row.bigint()), Int(try row.bigint()))
    return (ContactCounts(listed: claims - unlisted, unlisted: unlisted), try row.bigint())
  }

  /// Some at a time, and no lock in between: what adds or removes contacts raises the revision in its own transaction, so that
  /// what was counted beside it is not written.
  package func recountContacts(of peer: RelayName) async throws(StoreError) {
    let revision = try await counts(of: peer).revision
    var (claims, unlisted, last): (Int64, Int64, [UInt8]) = (0, 0, [])
    while let page = try await countContacts(of: peer, behind: last) {
      (claims, unlisted, last) = (claims + page.claims, unlisted + page.unlisted, page.last)
    }
    _ = try await write(
      .prepared(
        "recount_contacts",
        """
        UPDATE contact_counts SET contacts = $3::bigint, unlisted = $4::bigint, revision = revision + 1
        WHERE peer = $1::text AND revision = $2::bigint AND (contacts, unlisted) <> ($3::bigint, $4::bigint)
        """),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(bigint: revision)
        $0.add(bigint: claims)
        $0.add(bigint: unlisted)
      })
  }

  /// - Parameter last: a token as it is stored, or nothing.
  /// - Returns: how many lie behind `last`, counted to a bound, and the last of them; nil when none does.
  private func countContacts(
    of peer: RelayName, behind last: [UInt8]
  ) async throws(StoreError) -> (claims: Int64, unlisted: Int64, last: [UInt8])? {
    let result = try await readBulk(
      .prepared(
        "count_contacts",
        """
        WITH page AS MATERIALIZED (
          SELECT token, unlisted FROM peer_contacts WHERE peer = $1::text AND token > $2::bytea
          ORDER BY token LIMIT $3::bigint
        )
        SELECT count(*), count(unlisted), (SELECT token FROM page ORDER BY token DESC LIMIT 1) FROM page
        """),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(bytea: last)
        $0.add(bigint: 100_000)
      })
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    let (claims, unlisted) = (try row.bigint(), try row.bigint())
    guard claims > 0, let reached = row.optionalBytes() else { return nil }
    return (claims, unlisted, reached)
  }

  /// First of all in a transaction that adds or removes contacts of a peer. The peer's row against its removal, or the end of
  /// its copy, which would leave contacts of nobody behind, and since whether the feed hears of them depends on it; then their
  /// count. Two that lock in different orders wait for each other.
  ///
  /// - Parameter changesPeer: locks the peer's row as firmly as a later step needs it.
  static func contactLocks(of peer: RelayName, changesPeer: Bool = false) -> [PostgresStep] {
    let name = PostgresParameters { $0.add(text: peer.text) }
    let peerLock: PostgresStatement =
      changesPeer
      ? .prepared("lock_peer", "SELECT 1 FROM peers WHERE name = $1::text FOR NO KEY UPDATE")
      : .prepared("share_peer", "SELECT 1 FROM peers WHERE name = $1::text FOR SHARE")
    return [
      PostgresStep(peerLock, name),
      PostgresStep(
        .prepared("lock_contact_count", "SELECT 1 FROM contact_counts WHERE peer = $1::text FOR NO KEY UPDATE"), name),
    ]
  }
}
