package import RelayCore

extension PostgresStorage {
  package func accountCount() async throws(StoreError) -> Int {
    let result = try await readBulk(.prepared("account_count", "SELECT count(*) FROM accounts WHERE was_listed"))
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }

  /// By token, as it is stored: an account that is added while a peer reads page after page moves others to higher offsets only, so
  /// that the peer sees some twice and misses none.
  package func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount] {
    let tokens = try await tokens()
    let result = try await readBulk(
      .prepared(
        "accounts",
        """
        SELECT token, active AND discoverable, supports_sms, voice FROM accounts WHERE was_listed
        ORDER BY token, account LIMIT $1::bigint OFFSET $2::bigint
        """),
      PostgresParameters {
        $0.add(bigint: Int64(limit))
        $0.add(bigint: Int64(offset))
      })
    var accounts: [ListedAccount] = []
    accounts.reserveCapacity(result.rowCount)
    for index in result.rows {
      var row = result.cursor(row: index)
      accounts.append(try Self.listedAccount(&row, tokens))
    }
    return accounts
  }

  package func accountsRevision() async throws(StoreError) -> Int64 { try await revision(of: "accounts") }

  /// A number in `revisions`: its row is locked from a change to the commit, so whoever reads a value sees all that
  /// came before it.
  func revision(of subject: String) async throws(StoreError) -> Int64 {
    let result = try await read(
      .prepared("revision", "SELECT value FROM revisions WHERE subject = $1::text"),
      PostgresParameters { $0.add(text: subject) })
    guard result.rowCount == 1 else { throw .corrupted(reason: "the table revisions lacks a row") }
    var row = result.cursor(row: 0)
    return try row.bigint()
  }
}

// MARK: - What peers list

extension PostgresStorage {
  package func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64? {
    let result = try await write(
      .prepared(
        "begin_contacts",
        """
        UPDATE peers SET contacts_begun = greatest(contacts_begun, contacts_pass) + 1 WHERE name = $1::text
        RETURNING contacts_begun
        """),
      PostgresParameters { $0.add(text: peer.text) })
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    return try row.bigint()
  }

  package func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError) {
    // Of a token that a page lists twice the later wins, and one statement cannot write both.
    let contacts = Dictionary(page.map { ($0.token, $0) }) { _, later in later }.values
    let gone = contacts.filter(\.isInactive)
    let listed = contacts.filter { !$0.isInactive }.sorted { $0.token < $1.token }
    guard !contacts.isEmpty else { return }
    let tokens = try await tokens()
    let (storedGone, storedListed) = (try tokens.seal(gone.map(\.token)), try tokens.seal(listed.map(\.token)))
    let steps = [
      PostgresStep(
        .prepared(
          "merge_contacts",
          """
          INSERT INTO peer_contacts AS known (peer, token, supports_sms, voice, pass)
          SELECT p.name, i.token, i.supports_sms, i.voice, $5::bigint
          FROM peers AS p CROSS JOIN unnest($2::bytea[], $3::boolean[], $4::boolean[]) AS i (token, supports_sms, voice)
          WHERE p.name = $1::text AND p.contacts_mode = 'copy'
          ON CONFLICT (peer, token) DO UPDATE SET supports_sms = excluded.supports_sms, voice = excluded.voice,
            pass = greatest(known.pass, excluded.pass), unlisted = NULL
          """),
        PostgresParameters {
          $0.add(text: peer.text)
          $0.add(tokens: storedListed)
          $0.add(booleans: listed.map(\.supportsSMS))
          $0.add(booleans: listed.map(\.voice))
          $0.add(bigint: pass)
        }),
      Self.unlisting(storedGone, of: peer),
    ]
    _ = try await writeBulk(Self.contactLocks(of: peer) + steps)
  }

  package func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError) {
    try await walkContacts(of: peer) { last in Self.unlistingStep(of: peer, before: pass, behind: last) }
    _ = try await write(
      .prepared(
        "finish_contacts",
        """
        UPDATE peers SET contacts_pass = $2::bigint, contacts_mark = $3::bytea
        WHERE name = $1::text AND contacts_pass <= $2::bigint AND contacts_mode = 'copy'
        """),
      PostgresParameters {
        $0.add(text: peer.text)
        $0.add(bigint: pass)
        $0.add(opaque: mark)
      })
  }

  package func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?) {
    let result = try await read(
      .prepared("contacts_pass", "SELECT contacts_pass, contacts_mark FROM peers WHERE name = $1::text"),
      PostgresParameters { $0.add(text: peer.text) })
    guard result.rowCount == 1 else { return (0, nil) }
    var row = result.cursor(row: 0)
    return (try row.bigint(), row.optionalOpaque())
  }
}
