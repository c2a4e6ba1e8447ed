import RelayCore

/// A table with tokens, as it is gone through to seal them: in the order of its key, which is passed on as two texts.
struct TokenColumn: Sendable {
  let table: String
  /// The place before the first row.
  let beginning: Place
  /// After the last row's place, at most so many rows: the place, and the token. Sorted by the columns and not by the
  /// texts that are made of them, which would have their names.
  private let page: @Sendable (_ last: Place, _ limit: Int64) -> PostgresQuery
  /// Writes the tokens.
  private let update: @Sendable (SealedTokens) -> PostgresQuery

  /// A row's key.
  struct Place: Sendable, Equatable {
    let first: String
    let second: String

    init(first: String, second: String) {
      self.first = first
      self.second = second
    }

    fileprivate init(row: inout PostgresRow) throws(StoreError) {
      first = try row.text()
      second = try row.text()
    }
  }

  static let all = [
    TokenColumn(
      table: "accounts", beginning: Place(first: "0", second: ""),
      page: { last, limit in
        """
        SELECT t.account::text, \(last.second), t.token FROM accounts AS t WHERE t.account > \(last.first)::bigint
        ORDER BY t.account LIMIT \(limit)
        """
      },
      update: { sealed in
        """
        UPDATE accounts AS t SET token = s.token
        FROM unnest(\(sealed.firsts), \(sealed.seconds), \(sealed.tokens)) AS s (first, second, token)
        WHERE t.account = s.first::bigint
        """
      }),
    TokenColumn(
      table: "peer_contacts", beginning: Place(first: "", second: ""),
      page: { last, limit in
        """
        SELECT t.peer, encode(t.token, 'hex'), t.token FROM peer_contacts AS t
        WHERE (t.peer, t.token) > (\(last.first), decode(\(last.second), 'hex')) ORDER BY t.peer, t.token LIMIT \(limit)
        """
      },
      update: { sealed in
        """
        UPDATE peer_contacts AS t SET token = s.token
        FROM unnest(\(sealed.firsts), \(sealed.seconds), \(sealed.tokens)) AS s (first, second, token)
        WHERE t.peer = s.first AND t.token = decode(s.second, 'hex')
        """
      }),
    TokenColumn(
      table: "directory_changes", beginning: Place(first: "0", second: "0"),
      page: { last, limit in
        """
        SELECT t.changed::text, t.id::text, t.token FROM directory_changes AS t
        WHERE (t.changed, t.id) > (\(last.first)::xid8, \(last.second)::bigint) AND t.token IS NOT NULL
        ORDER BY t.changed, t.id LIMIT \(limit)
        """
      },
      update: { sealed in
        """
        UPDATE directory_changes AS t SET token = s.token
        FROM unnest(\(sealed.firsts), \(sealed.seconds), \(sealed.tokens)) AS s (first, second, token)
        WHERE t.changed = s.first::xid8 AND t.id = s.second::bigint
        """
      }),
    TokenColumn(
      table: "oblivious_outputs", beginning: Place(first: "", second: ""),
      page: { last, limit in
        """
        SELECT encode(token, 'hex'), \(last.second), token FROM oblivious_outputs
        WHERE token > decode(\(last.first), 'hex') ORDER BY token LIMIT \(limit)
        """
      },
      update: { sealed in
        """
        UPDATE oblivious_outputs AS t SET token = s.token
        FROM unnest(\(sealed.firsts), \(sealed.seconds), \(sealed.tokens)) AS s (first, second, token)
        WHERE t.token = decode(s.first, 'hex')
        """
      }),
    TokenColumn(
      table: "unlisted_tokens", beginning: Place(first: "", second: ""),
      page: { last, limit in
        """
        SELECT encode(token, 'hex'), \(last.second), token FROM unlisted_tokens
        WHERE token > decode(\(last.first), 'hex') ORDER BY token LIMIT \(limit)
        """
      },
      update: { sealed in
        """
        UPDATE unlisted_tokens AS t SET token = s.token
        FROM unnest(\(sealed.firsts), \(sealed.seconds), \(sealed.tokens)) AS s (first, second, token)
        WHERE t.token = decode(s.first, 'hex')
        """
      }),
  ]

  private static let rowsMax = 5_000

  /// Seals the tokens of some rows, unseen by triggers: no listing and no feed changes.
  /// - Returns: the last of the rows, and how many were sealed; nil at the end.
  func sealNext(
    behind last: Place, _ tokens: TokenSealer, over connection: PostgresConnection
  ) async throws(StoreError) -> (last: Place, sealed: Int)? {
    let found = try await connection.perform([PostgresStep(once: page(last, Int64(Self.rowsMax)))])
    let rows = try found.all { (row) throws(StoreError) in (place: try Place(row: &row), token: try row.token()) }
    guard let reached = rows.last?.place else { return nil }
    // Tokens that are sealed already lie between the others.
    let plain = rows.filter { $0.token.bytes.count != TokenSealer.sealedBytes }
    if !plain.isEmpty {
      var sealed: [StoredToken] = []
      for row in plain { sealed.append(try tokens.seal(TokenSealer.plain.open(row.token))) }
      try await write(SealedTokens(sealed, at: plain.map(\.place)), over: connection)
    }
    return (reached, plain.count)
  }

  private func write(_ tokens: SealedTokens, over connection: PostgresConnection) async throws(StoreError) {
    try await connection.perform([
      PostgresStep(.once("ALTER TABLE \(table) DISABLE TRIGGER USER")),
      PostgresStep(once: update(tokens)),
      PostgresStep(.once("ALTER TABLE \(table) ENABLE TRIGGER USER")),
    ])
  }
}

/// Tokens with the places of their rows: three arrays, `unnest(…) AS s (first, second, token)`.
private struct SealedTokens: Sendable {
  let firsts: PostgresParameter
  let seconds: PostgresParameter
  let tokens: PostgresParameter

  init(_ tokens: [StoredToken], at places: [TokenColumn.Place]) {
    firsts = PostgresParameter(each: places.lazy.map(\.first))
    seconds = PostgresParameter(each: places.lazy.map(\.second))
    self.tokens = PostgresParameter(each: tokens)
  }
}
