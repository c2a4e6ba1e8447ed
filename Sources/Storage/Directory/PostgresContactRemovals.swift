// Un-listing and removing contacts of a peer: by key and some at a time, so that each statement costs what it looks
// at. A peer may list millions, and a statement has its time limit and its neighbours.

package import RelayCore

extension PostgresStorage {
  private static let pageRows: Int64 = 10_000

  package func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError) {
    try await removeContacts(of: peer, unlistedToo: !keepingClaims)
  }

  /// - Parameter unlistedToo: whether tombstones go as well.
  func removeContacts(of peer: RelayName, unlistedToo: Bool = true) async throws(StoreError) {
    let name = PostgresParameter(peer)
    try await walkContacts(of: peer) { last in
      PostgresStep(
        "remove_contacts",
        """
        WITH page AS MATERIALIZED (
          SELECT token FROM peer_contacts WHERE peer = \(name) AND token > \(last) ORDER BY token LIMIT \(Self.pageRows)
        ), removed AS (
          DELETE FROM peer_contacts AS c USING page AS s
          WHERE c.peer = \(name) AND c.token = s.token AND (\(unlistedToo) OR c.unlisted IS NULL)
        )
        SELECT token FROM page ORDER BY token DESC LIMIT 1
        """)
    }
  }

  /// Un-lists the contacts behind `last` that no pass from `pass` on has seen.
  static func unlistingStep(of peer: RelayName, before pass: Int64, behind last: [UInt8]) -> PostgresStep {
    let name = PostgresParameter(peer)
    return PostgresStep(
      "unlist_unseen",
      """
      WITH page AS MATERIALIZED (
        SELECT token FROM peer_contacts WHERE peer = \(name) AND token > \(last) ORDER BY token LIMIT \(pageRows)
      ), unlisted AS (
        UPDATE peer_contacts AS c
        SET unlisted = floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint FROM page AS s
        WHERE c.peer = \(name) AND c.token = s.token AND c.pass < \(pass) AND c.unlisted IS NULL
      )
      SELECT token FROM page ORDER BY token DESC LIMIT 1
      """)
  }

  static func unlisting(_ tokens: [StoredToken], of peer: RelayName) -> PostgresStep {
    PostgresStep(
      "unlist_contacts",
      """
      UPDATE peer_contacts SET unlisted = floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
      WHERE peer = \(peer) AND token = ANY (\(each: tokens)) AND unlisted IS NULL
      """)
  }

  /// Runs `step`, which answers with the last token that it looked at, for what lies behind each answer, as long as
  /// there is one. Tokens are as they are stored.
  func walkContacts(of peer: RelayName, _ step: (_ last: [UInt8]) -> PostgresStep) async throws(StoreError) {
    var last: [UInt8] = []
    while true {
      let results = try await writeBulk(Self.contactLocks(of: peer) + [step(last)])
      guard let result = results.last, result.rowCount == 1 else { return }
      var row = result.cursor(row: 0)
      last = try row.bytes()
    }
  }
}
