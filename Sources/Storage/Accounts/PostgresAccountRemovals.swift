package import RelayCore

extension PostgresStorage {
  /// The tables with rows of an account, its own row last but for its devices', by which an installation is known.
  private static let tables: [StaticString] = [
    "messages", "acknowledged", "one_time_prekeys", "last_resort_prekeys", "verification_codes", "linking_codes",
    "attachments", "attachment_charges", "accounts", "devices",
  ]

  package func removeAccount(
    _ number: AccountNumber, of installation: PasswordHash?, isBanned: Bool
  ) async throws(StoreError) -> AccountRemoval? {
    let mark = isBanned ? try await knownCodes.value(in: self).banMark(of: number) : nil
    let before = [Self.turnStep(number), Self.lockStep(number)]
    let removals = Self.removalSteps(number, installation)
    let results = try await write(before + removals + (mark.map { [Self.banStep($0)] } ?? []))
    guard results.count >= before.count + removals.count else {
      throw .corrupted(reason: "a removal has fewer answers than steps")
    }
    // The listing's step is the first of the removals.
    let rows = Dictionary(
      uniqueKeysWithValues: zip(
        Self.tables.map(\.description), results.dropFirst(before.count + 1).map(\.affectedRows)))
    guard rows["accounts"] == 1 else { return nil }
    var removal = AccountRemoval()
    removal.devices = rows["devices"] ?? 0
    removal.oneTimePreKeys = rows["one_time_prekeys"] ?? 0
    removal.waiting = rows["messages"] ?? 0
    removal.acknowledged = rows["acknowledged"] ?? 0
    removal.codes = (rows["verification_codes"] ?? 0) + (rows["linking_codes"] ?? 0)
    return removal
  }

  /// First a step that gives peers something new to read where the account is found, then one for each of `tables`.
  private static func removalSteps(_ number: AccountNumber, _ installation: PasswordHash?) -> [PostgresStep] {
    let account = PostgresParameter(number)
    let right = RemovalRight(
      account: account, salt: PostgresParameter(installation?.salt), hash: PostgresParameter(installation?.hash))
    let unlisting = PostgresStep(
      once: """
        UPDATE revisions SET value = value + 1
        WHERE subject = 'accounts'
          AND EXISTS (SELECT FROM accounts WHERE account = \(account) AND active AND discoverable)
          AND \(right)
        """)
    return [unlisting]
      + tables.map { PostgresStep(once: "DELETE FROM \(fragment: $0) WHERE account = \(account) AND \(right)") }
  }
}

/// A removal is allowed to the operator, whose salt and hash are NULL, and to the installation that is still there.
private struct RemovalRight {
  let account: PostgresParameter
  let salt: PostgresParameter
  let hash: PostgresParameter
}

extension PostgresQuery.Interpolation {
  /// The condition that the removal is allowed.
  fileprivate mutating func appendInterpolation(_ right: RemovalRight) {
    appendLiteral("(")
    appendInterpolation(right.hash)
    appendLiteral(" IS NULL OR EXISTS (SELECT 1 FROM devices AS m WHERE m.account = ")
    appendInterpolation(right.account)
    appendLiteral(" AND m.device = 1 AND m.password_salt = ")
    appendInterpolation(right.salt)
    appendLiteral(" AND m.password_hash = ")
    appendInterpolation(right.hash)
    appendLiteral("))")
  }
}

// MARK: - Numbers that may have no account

extension PostgresStorage {
  private static func banStep(_ mark: StoredCode) -> PostgresStep {
    PostgresStep(
      "ban_number",
      """
      INSERT INTO banned_numbers (mark, banned) VALUES (\(mark), floor(extract(epoch FROM now()) * 1000)::bigint)
      ON CONFLICT (mark) DO NOTHING
      """)
  }

  package func unban(_ number: AccountNumber) async throws(StoreError) -> Bool {
    let mark = try await knownCodes.value(in: self).banMark(of: number)
    return try await write("unban_number", "DELETE FROM banned_numbers WHERE mark = \(mark)").affectedRows == 1
  }

  package func isBanned(_ number: AccountNumber) async throws(StoreError) -> Bool {
    let mark = try await knownCodes.value(in: self).banMark(of: number)
    return try await read("is_banned", "SELECT 1 FROM banned_numbers WHERE mark = \(mark)").rowCount == 1
  }

  package func bannedCount() async throws(StoreError) -> Int {
    let result = try await read("banned_count", "SELECT count(*) FROM banned_numbers")
    guard result.rowCount == 1 else { throw .corrupted(reason: "a count has no row") }
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }

  package func attachments(of number: AccountNumber, limit: Int) async throws(StoreError) -> [AttachmentID] {
    let result = try await readBulk(
      "attachments_of_account", "SELECT id FROM attachments WHERE account = \(number) LIMIT \(Int64(limit))")
    return try result.all { (row) throws(StoreError) in try row.required(AttachmentID(row.bigint())) }
  }

  /// Peers that are away for longer read the whole listing anew.
  func forgetUnlisted(at past: Timestamp) async throws(StoreError) {
    let end = past.adding(.zero - Listing.unlistedLife)
    _ = try await write(
      "forget_unlisted",
      """
      WITH gone AS (DELETE FROM unlisted_tokens WHERE ended < \(end) RETURNING listing_revision)
      UPDATE revisions SET value = greatest(value, (SELECT max(listing_revision) FROM gone))
      WHERE subject = 'listing-pruned' AND EXISTS (SELECT FROM gone)
      """)
  }
}
