// Un-listing and removing contacts of a peer: by key and some at a time, so that each statement costs what it looks at. A peer
// may list millions, and a statement has its time limit and its neighbours.

package import RelayCore

extension PostgresStorage {
  private static let pageRows: Int64 = 10_000

  package func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError) {
    try await removeContacts(of: peer, unlistedToo: !keepingClaims)
  }

  /// - Parameter unlistedToo: whether tombstones go as well.
  func removeContacts(of peer: RelayName, unlistedToo: Bool = true) async throws(StoreError) {
    try await walkContacts(of: peer) { last in
      PostgresStep(
        .prepared(
          "remove_contacts",
          """
          WITH page AS MATERIALIZED (
            SELECT token FROM peer_contacts WHERE peer = $1::text AND token > $2::bytea ORDER BY token LIMIT $3::bigint
          ), removed AS (
            DELETE FROM peer_contacts AS c USING page AS s
            WHERE c.peer = $1::text AND c.token = s.token AND ($4::boolean OR c.unlisted IS NULL)
          )
          SELECT token FROM page ORDER BY token DESC LIMIT 1
          """),
        PostgresParameters {
          $0.add(text: peer.text)
          $0.add(bytea: last)
          $0.add(bigint: Self.pageRows)
          $0.add(boolean: unlistedToo)
        })
    }
  }

  /// Of what lies behind `last`, what no pass from `pass` on has seen.
  static func unlistingStep(of peer: RelayName, before pass: Int64, behind last: [UInt8]) -> PostgresStep {
    PostgresStep(
      .prepared(
        "unlist_unseen",
        """
        WITH page AS MATERIALIZED (
          SELECT token FROM peer_contacts WHERE peer = $1::text AND token > $2::bytea ORDER BY token LIMIT $3::bigint
        ), unlisted AS (
          UPDATE peer_contacts AS c SET unlisted = floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint FROM page AS s
          WHERE c.peer = $1::text AND c.token = s.token AND c.pass < $4::bigint AND c.unlisted IS NULL
        )
        SELECT token FROM page ORDER BY token DESC LIMIT 1
        """),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(bytea: last)
        $0.add(bigint: pageRows)
        $0.add(bigint: pass)
      })
  }

  static func unlisting(_ tokens: [StoredToken], of peer: RelayName) -> PostgresStep {
    PostgresStep(
      .prepared(
        "unlist_contacts",
        """
        UPDATE peer_contacts SET unlisted = floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint
        WHERE peer = $1::text AND token = ANY ($2::bytea[]) AND unlisted IS NULL
        """),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(tokens: tokens)
      })
  }

  /// Runs `step`, which answers with the last token that it looked at, for what lies behind each answer, as long as there is one.
  /// Tokens are as they are stored.
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
