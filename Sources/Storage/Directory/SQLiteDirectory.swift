import GRDB
package import RelayCore

extension SQLiteStorage {
  package func accountCount() async throws(StoreError) -> Int {
    try await read { db in try Int(Fields.valid(db.row("SELECT count(*) FROM accounts WHERE was_listed")).integer(0)) }
  }

  /// By token, as it is stored: an account that is added while a peer reads page after page moves others to higher
  /// offsets, so that the peer sees some twice. One that is deleted moves them to lower ones: a peer asks
  /// for the end of each page again, and misses none unless more are deleted between two pages.
  package func accounts(offset: Int, limit: Int) async throws(StoreError) -> [ListedAccount] {
    let tokens = try await tokens()
    return try await read { db in
      try db.rows(
        """
        SELECT token, active AND discoverable, supports_sms, voice FROM accounts WHERE was_listed
        ORDER BY token, account LIMIT \(limit) OFFSET \(offset)
        """
      ).map { try ListedAccount(row: $0, tokens) }
    }
  }

  package func accountsRevision() async throws(StoreError) -> Int64 {
    try await read { db in try db.revision(.accounts) }
  }

  package func beginContacts(of peer: RelayName) async throws(StoreError) -> Int64? {
    try await write { db in
      try db.run(
        "UPDATE peers SET contacts_begun = max(contacts_begun, contacts_pass) + 1 WHERE name = \(peer)")
      return try db.row("SELECT contacts_begun FROM peers WHERE name = \(peer)")?.integer(0)
    }
  }

  package func mergeContacts(
    _ page: [ListedAccount], of peer: RelayName, pass: Int64
  ) async throws(StoreError) {
    guard !page.isEmpty else { return }
    let (now, tokens) = (clock.now(), try await tokens())
    try await write { db in
      guard try Self.copiedPass(of: peer, in: db) != nil else { return }
      try Self.merge(page, tokens, of: peer, pass: pass, now: now, in: db)
    }
  }

  /// - Returns: the last finished pass of `peer`; nil when its contacts are not copied.
  static func copiedPass(of peer: RelayName, in db: Database) throws -> Int64? {
    try db.row("SELECT contacts_pass FROM peers WHERE name = \(peer) AND contacts_mode = 'copy'")?.integer(0)
  }

  /// Un-lists inactive accounts, adds or refreshes the others: since when they are claimed stays.
  static func merge(
    _ page: [ListedAccount], _ tokens: TokenSealer, of peer: RelayName, pass: Int64, now: Timestamp, in db: Database
  ) throws {
    for contact in page {
      let token = try tokens.seal(contact.token)
      if contact.isInactive {
        try db.run(
          "UPDATE peer_contacts SET unlisted = \(now) WHERE peer = \(peer) AND token = \(token) AND unlisted IS NULL")
      } else {
        try db.run(
          """
          INSERT INTO peer_contacts (peer, token, supports_sms, voice, pass, since)
          VALUES (\(peer), \(token), \(contact.supportsSMS), \(contact.voice), \(pass), \(now))
          ON CONFLICT (peer, token) DO UPDATE SET supports_sms = excluded.supports_sms, voice = excluded.voice,
            pass = max(pass, excluded.pass), unlisted = NULL
          """)
      }
    }
  }

  package func finishContacts(of peer: RelayName, pass: Int64, mark: String?) async throws(StoreError) {
    let now = clock.now()
    try await write { db in
      try db.run(
        "UPDATE peer_contacts SET unlisted = \(now) WHERE peer = \(peer) AND pass < \(pass) AND unlisted IS NULL")
      try db.run(
        """
        UPDATE peers SET contacts_pass = \(pass), contacts_mark = \(opaque: mark)
        WHERE name = \(peer) AND contacts_pass <= \(pass) AND contacts_mode = 'copy'
        """)
    }
  }

  package func dropContacts(of peer: RelayName, keepingClaims: Bool) async throws(StoreError) {
    try await write { db in
      try db.run("DELETE FROM peer_contacts WHERE peer = \(peer) AND (unlisted IS NULL OR NOT \(keepingClaims))")
    }
  }

  package func contactsPass(of peer: RelayName) async throws(StoreError) -> (pass: Int64, mark: String?) {
    try await read { db in
      let found = try db.row("SELECT contacts_pass, contacts_mark FROM peers WHERE name = \(peer)")
      guard let found else { return (0, nil) }
      return try (found.integer(0), found.optionalOpaque(1))
    }
  }
}

extension ListedAccount {
  /// From token, whether the account is active and wants to be found, supports_sms, voice.
  init(row: Fields, _ tokens: TokenSealer) throws(StoreError) {
    // Nothing more is told of hidden accounts.
    let isActive = try row.flag(1)
    let (supportsSMS, voice) = isActive ? (try row.flag(2), try row.flag(3)) : (false, false)
    self.init(token: try tokens.open(row.token(0)), isInactive: !isActive, supportsSMS: supportsSMS, voice: voice)
  }
}
