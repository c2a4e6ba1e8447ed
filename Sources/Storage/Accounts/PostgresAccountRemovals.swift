package import RelayCore

extension PostgresStorage {
  /// The tables with rows of an account, its own row last but for its devices', by which an installation is known.
  private static let tables = [
    "messages", "acknowledged", "one_time_prekeys", "last_resort_prekeys", "verification_codes", "linking_codes",
    "attachments", "attachment_charges", "accounts", "devices",
  ]

  package func removeAccount(
    _ number: AccountNumber, of installation: PasswordHash?, isBanned: Bool
  ) async throws(StoreError) -> AccountRemoval? {
    let mark = isBanned ? try await knownCodes.value(in: self).banMark(of: number) : nil
    let before = [Self.turnStep(number), Self.lockStep(number), Self.unlistStep(number, installation)]
    let results = try await write(
      before + Self.tables.map { Self.removalStep(of: $0, number, installation) }
        + (mark.map { [Self.banStep($0)] } ?? []))
    guard results.count >= before.count + Self.tables.count else {
      throw .corrupted(reason: "a removal has fewer answers than steps")
    }
    let rows = Dictionary(
      uniqueKeysWithValues: zip(Self.tables, results.dropFirst(before.count).map(\.affectedRows)))
    guard rows["accounts"] == 1 else { return nil }
    var removal = AccountRemoval()
    removal.devices = rows["devices"] ?? 0
    removal.oneTimePreKeys = rows["one_time_prekeys"] ?? 0
    removal.waiting = rows["messages"] ?? 0
    removal.acknowledged = rows["acknowledged"] ?? 0
    removal.codes = (rows["verification_codes"] ?? 0) + (rows["linking_codes"] ?? 0)
    return removal
  }

  /// Peers have something new to read where the account is found.
  private static func unlistStep(_ number: AccountNumber, _ installation: PasswordHash?) -> PostgresStep {
    PostgresStep(
      .once(
        """
        UPDATE revisions SET value = value + 1
        WHERE subject = 'accounts'
          AND EXISTS (SELECT FROM accounts WHERE account = $1::bigint AND active AND discoverable)
          AND \(isMeant)
        """), parameters(number, installation))
  }

  private static func removalStep(
    of table: String, _ number: AccountNumber, _ installation: PasswordHash?
  ) -> PostgresStep {
    PostgresStep(
      .once("DELETE FROM \(table) WHERE account = $1::bigint AND \(isMeant)"),
      parameters(number, installation))
  }

  /// The operator asks ($3 is NULL), or the installation that is there still.
  private static let isMeant = """
    ($3::bytea IS NULL OR EXISTS (
      SELECT FROM devices AS m WHERE m.account = $1::bigint AND m.device = 1 AND m.password_salt = $2::bytea
        AND m.password_hash = $3::bytea))
    """

  private static func parameters(_ number: AccountNumber, _ installation: PasswordHash?) -> PostgresParameters {
    PostgresParameters {
      $0.add(account: number)
      $0.add(password: installation)
    }
  }
}

// MARK: - Numbers that may have no account

extension PostgresStorage {
  private static func banStep(_ mark: StoredCode) -> PostgresStep {
    PostgresStep(
      .prepared(
        "ban_number",
        """
        INSERT INTO banned_numbers (mark, banned) VALUES ($1::bytea, floor(extract(epoch FROM now()) * 1000)::bigint)
        ON CONFLICT (mark) DO NOTHING
        """), PostgresParameters { $0.add(code: mark) })
  }

  package func unban(_ number: AccountNumber) async throws(StoreError) -> Bool {
    let mark = try await knownCodes.value(in: self).banMark(of: number)
    let step = PostgresStep(
      .prepared("unban_number", "DELETE FROM banned_numbers WHERE mark = $1::bytea"),
      PostgresParameters { $0.add(code: mark) })
    return try await write([step]).first?.affectedRows == 1
  }

  package func isBanned(_ number: AccountNumber) async throws(StoreError) -> Bool {
    let mark = try await knownCodes.value(in: self).banMark(of: number)
    return try await read(
      .prepared("is_banned", "SELECT 1 FROM banned_numbers WHERE mark = $1::bytea"),
      PostgresParameters { $0.add(code: mark) }
    ).rowCount == 1
  }

  package func bannedCount() async throws(StoreError) -> Int {
    let result = try await read(.prepared("banned_count", "SELECT count(*) FROM banned_numbers"), .none)
    guard result.rowCount == 1 else { throw .corrupted(reason: "a count has no row") }
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }

  package func attachments(of number: AccountNumber, limit: Int) async throws(StoreError) -> [AttachmentID] {
    let result = try await readBulk(
      .prepared("attachments_of_account", "SELECT id FROM attachments WHERE account = $1::bigint LIMIT $2::bigint"),
      PostgresParameters {
        $0.add(account: number)
        $0.add(bigint: Int64(limit))
      })
    var ids: [AttachmentID] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      ids.append(try row.required(AttachmentID(row.bigint())))
    }
    return ids
  }

  /// Peers that are away for longer read the whole listing anew.
  func forgetUnlisted(at past: Timestamp) async throws(StoreError) {
    _ = try await write([
      PostgresStep(
        .prepared(
          "forget_unlisted",
          """
          WITH gone AS (DELETE FROM unlisted_tokens WHERE ended < $1::bigint RETURNING listing_revision)
          UPDATE revisions SET value = greatest(value, (SELECT max(listing_revision) FROM gone))
          WHERE subject = 'listing-pruned' AND EXISTS (SELECT FROM gone)
          """),
        PostgresParameters { $0.add(bigint: past.adding(.zero - Listing.unlistedLife).millis) })
    ])
  }
}
