import RelayCore

/// A table with tokens, as it is gone through to seal them: in the order of its key, which is passed on as two texts.
struct TokenColumn: Sendable {
  let table: String
  /// What comes before the first row.
  let beginning: Place
  /// From `$1` and `$2`, the last row's place, to at most `$3` rows: the place, and the token. Sorted by the columns and
  /// not by the texts that are made of them, which would have their names.
  private let page: String
  /// Of the places `$1` and `$2` the tokens `$3`.
  private let update: String

  /// A row's key.
  struct Place: Sendable, Equatable {
    let first: String
    let second: String
  }

  static let all = [
    TokenColumn(
      table: "accounts", beginning: Place(first: "0", second: ""),
      page: """
        SELECT t.account::text, $2::text, t.token FROM accounts AS t WHERE t.account > $1::text::bigint
        ORDER BY t.account LIMIT $3::bigint
        """,
      update: """
        UPDATE accounts AS t SET token = s.token
        FROM unnest($1::text[], $2::text[], $3::bytea[]) AS s (first, second, token) WHERE t.account = s.first::bigint
        """),
    TokenColumn(
      table: "peer_contacts", beginning: Place(first: "", second: ""),
      page: """
        SELECT t.peer, encode(t.token, 'hex'), t.token FROM peer_contacts AS t
        WHERE (t.peer, t.token) > ($1::text, decode($2::text, 'hex')) ORDER BY t.peer, t.token LIMIT $3::bigint
        """,
      update: """
        UPDATE peer_contacts AS t SET token = s.token
        FROM unnest($1::text[], $2::text[], $3::bytea[]) AS s (first, second, token)
        WHERE t.peer = s.first AND t.token = decode(s.second, 'hex')
        """),
    TokenColumn(
      table: "directory_changes", beginning: Place(first: "0", second: "0"),
      page: """
        SELECT t.changed::text, t.id::text, t.token FROM directory_changes AS t
        WHERE (t.changed, t.id) > ($1::text::xid8, $2::text::bigint) AND t.token IS NOT NULL
        ORDER BY t.changed, t.id LIMIT $3::bigint
        """,
      update: """
        UPDATE directory_changes AS t SET token = s.token
        FROM unnest($1::text[], $2::text[], $3::bytea[]) AS s (first, second, token)
        WHERE t.changed = s.first::xid8 AND t.id = s.second::bigint
        """),
    TokenColumn(
      table: "oblivious_outputs", beginning: Place(first: "", second: ""),
      page: """
        SELECT encode(token, 'hex'), $2::text, token FROM oblivious_outputs WHERE token > decode($1::text, 'hex')
        ORDER BY token LIMIT $3::bigint
        """,
      update: """
        UPDATE oblivious_outputs AS t SET token = s.token
        FROM unnest($1::text[], $2::text[], $3::bytea[]) AS s (first, second, token)
        WHERE t.token = decode(s.first, 'hex')
        """),
    TokenColumn(
      table: "unlisted_tokens", beginning: Place(first: "", second: ""),
      page: """
        SELECT encode(token, 'hex'), $2::text, token FROM unlisted_tokens WHERE token > decode($1::text, 'hex')
        ORDER BY token LIMIT $3::bigint
        """,
      update: """
        UPDATE unlisted_tokens AS t SET token = s.token
        FROM unnest($1::text[], $2::text[], $3::bytea[]) AS s (first, second, token)
        WHERE t.token = decode(s.first, 'hex')
        """),
  ]

  private static let rowsMax = 5_000

  /// Seals the tokens of some rows, unseen by triggers: no listing and no feed changes.
  /// - Returns: the last of the rows, and how many were sealed; nil at the end.
  func sealNext(
    behind last: Place, _ tokens: TokenSealer, over connection: PostgresConnection
  ) async throws(StoreError) -> (last: Place, sealed: Int)? {
    let found = try await connection.perform([
      PostgresStep(
        .once(page),
        PostgresParameters {
          $0.add(text: last.first)
          $0.add(text: last.second)
          $0.add(bigint: Int64(Self.rowsMax))
        })
    ])
    var reached: Place?
    var (places, sealed): ([Place], [StoredToken]) = ([], [])
    for index in found.rows {
      var row = found.cursor(row: index)
      let place = Place(first: try row.text(), second: try row.text())
      let stored = try row.token()
      reached = place
      // Those that are sealed already lie between the others.
      guard stored.bytes.count != TokenSealer.sealedBytes else { continue }
      places.append(place)
      sealed.append(try tokens.seal(TokenSealer.plain.open(stored)))
    }
    guard let reached else { return nil }
    if !places.isEmpty { try await write(sealed, at: places, over: connection) }
    return (reached, places.count)
  }

  private func write(
    _ tokens: [StoredToken], at places: [Place], over connection: PostgresConnection
  ) async throws(StoreError) {
    try await connection.perform([
      PostgresStep(.once("ALTER TABLE \(table) DISABLE TRIGGER USER")),
      PostgresStep(
        .once(update),
        PostgresParameters {
          $0.add(texts: places.map(\.first))
          $0.add(texts: places.map(\.second))
          $0.add(tokens: tokens)
        }),
      PostgresStep(.once("ALTER TABLE \(table) ENABLE TRIGGER USER")),
    ])
  }
}
