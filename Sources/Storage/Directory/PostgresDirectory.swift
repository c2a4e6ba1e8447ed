package import RelayCore

extension PostgresStorage {
  package func accountCount() async throws(StoreError) -> Int {
    let result = try await readBulk("account_count", "SELECT count(*) FROM accounts WHERE was_listed")
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }

  /// By token, as it is stored: an account that is added while a peer reads page after page moves others to higher
  /// offsets, so that the peer sees some twice. One that is deleted moves them to lower ones: a peer asks
  /// for the end of each page again, and misses none unless more are deleted between two pages.
  package func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount] {
    let tokens = try await tokens()
    let result = try await readBulk(
      "accounts",
      """
      SELECT token, active AND discoverable, supports_sms, voice FROM accounts WHERE was_listed
      ORDER BY token, account LIMIT \(Int64(limit)) OFFSET \(Int64(offset))
      """)
    return try result.all { (row) throws(StoreError) in try ListedAccount(row: &row, tokens) }
  }

  package func accountsRevision() async throws(StoreError) -> Int64 { try await revision(of: "accounts") }

  /// A number in `revisions`: its row is locked from a change to the commit, so a reader of a value sees all that
  /// came before it.
  func revision(of subject: String) async throws(StoreError) -> Int64 {
    let result = try await read("revision", "SELECT value FROM revisions WHERE subject = \(subject)")
    guard let value = try result.first({ (row) throws(StoreError) in try row.bigint() }) else {
      throw .corrupted(reason: "the table revisions lacks a row")
    }
    return value
  }
}

// MARK: - What peers list

extension PostgresStorage {
  package func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64? {
    let result = try await write(
      "begin_contacts",
      """
      UPDATE peers SET contacts_begun = greatest(contacts_begun, contacts_pass) + 1 WHERE name = \(peer)
      RETURNING contacts_begun
      """)
    return try result.first { (row) throws(StoreError) in try row.bigint() }
  }

  package func mergeContacts(_ page: [ListedAccount], of peer: RelayName, pass: Int64) async throws(StoreError) {
    guard !page.isEmpty else { return }
    let contacts = try StoredListing(page, try await tokens())
    let steps = [
      PostgresStep(
        "merge_contacts",
        """
        INSERT INTO peer_contacts AS known (peer, token, supports_sms, voice, pass)
        SELECT p.name, i.token, i.supports_sms, i.voice, \(pass)
        FROM peers AS p
        CROSS JOIN unnest(
          \(each: contacts.tokens), \(each: contacts.listed.lazy.map(\.supportsSMS)),
          \(each: contacts.listed.lazy.map(\.voice))
        ) AS i (token, supports_sms, voice)
        WHERE p.name = \(peer) AND p.contacts_mode = 'copy'
        ON CONFLICT (peer, token) DO UPDATE SET supports_sms = excluded.supports_sms, voice = excluded.voice,
          pass = greatest(known.pass, excluded.pass), unlisted = NULL
        """),
      Self.unlisting(contacts.gone, of: peer),
    ]
    _ = try await writeBulk(Self.contactLocks(of: peer) + steps)
  }

  package func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError) {
    try await walkContacts(of: peer) { last in Self.unlistingStep(of: peer, before: pass, behind: last) }
    let pass = PostgresParameter(pass)
    _ = try await write(
      "finish_contacts",
      """
      UPDATE peers SET contacts_pass = \(pass), contacts_mark = \(opaque: mark)
      WHERE name = \(peer) AND contacts_pass <= \(pass) AND contacts_mode = 'copy'
      """)
  }

  package func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?) {
    let result = try await read(
      "contacts_pass", "SELECT contacts_pass, contacts_mark FROM peers WHERE name = \(peer)")
    let found = try result.first { (row) throws(StoreError) in (pass: try row.bigint(), mark: row.optionalOpaque()) }
    return found ?? (0, nil)
  }
}
