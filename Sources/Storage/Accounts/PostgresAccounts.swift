package import RelayCore

extension PostgresStorage {
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    // One statement, so that account and devices are of one moment.
    let result = try await read(
      "account",
      """
      SELECT a.account, a.identity_key, a.supports_sms, a.voice, a.registration_lock_salt, a.registration_lock_hash,
        device, \(DeviceColumns.self)
      FROM accounts AS a LEFT JOIN devices AS d ON d.account = a.account
      WHERE a.account = \(number)
      ORDER BY d.device
      """)
    return try accounts(in: result).first
  }

  package func accounts(_ numbers: [AccountNumber]) async throws(StoreError) -> [Account] {
    guard !numbers.isEmpty else { return [] }
    let result = try await read(
      "accounts",
      """
      SELECT a.account, a.identity_key, a.supports_sms, a.voice, a.registration_lock_salt, a.registration_lock_hash,
        device, \(DeviceColumns.self)
      FROM accounts AS a LEFT JOIN devices AS d ON d.account = a.account
      WHERE a.account = ANY (\(each: numbers))
      ORDER BY a.account, d.device
      """)
    return try accounts(in: result)
  }

  /// - Parameter result: a row for each device, those of one account together. The account's columns stand in front.
  private func accounts(in result: PostgresResult) throws(StoreError) -> [Account] {
    var accounts: [Account] = []
    let rows = try result.all { (row) throws(StoreError) in
      let account = try Account(row: &row)
      return (account: account, device: try Device(optional: &row, of: account.number, sealer: sealer))
    }
    for (account, device) in rows {
      if accounts.last?.number != account.number { accounts.append(account) }
      if let device { accounts[accounts.count - 1].devices.append(device) }
    }
    return accounts
  }

  package func accounts(holding tokens: [ContactToken]) async throws(StoreError) -> [AccountNumber] {
    guard !tokens.isEmpty else { return [] }
    let stored = try await self.tokens().seal(tokens)
    let result = try await read(
      "accounts_holding",
      "SELECT DISTINCT ON (token) account FROM accounts WHERE token = ANY (\(each: stored)) ORDER BY token, account")
    return try result.all { (row) throws(StoreError) in try row.account() }
  }

  package func setVerificationCode(_ code: VerificationCode, for number: AccountNumber, purpose: CodePurpose)
    async throws(StoreError)
  {
    let stored = try await knownCodes.value(in: self).stored(code.code, purpose, of: number)
    let step =
      switch purpose {
      case .registration:
        PostgresStep(
          "set_verification_code",
          """
          INSERT INTO verification_codes (account, code, expires, tries)
          VALUES (\(number), \(stored), \(code.expires), 0)
          ON CONFLICT (account) DO UPDATE SET code = excluded.code, expires = excluded.expires, tries = 0
          """)
      case .linking:
        PostgresStep(
          "set_linking_code",
          """
          INSERT INTO linking_codes (account, code, expires, tries)
          VALUES (\(number), \(stored), \(code.expires), 0)
          ON CONFLICT (account) DO UPDATE SET code = excluded.code, expires = excluded.expires, tries = 0
          """)
      }
    _ = try await write([step])
  }
}

// MARK: - What changes of accounts have in common

extension PostgresStorage {
  /// Each change of an account's devices or keys takes the account's row first: such changes take turns, see each
  /// other's work, and never wait for each other in a circle.
  static func lockStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep("lock_account", "SELECT 1 FROM accounts WHERE account = \(number) FOR UPDATE")
  }
}

extension Account {
  /// Without its devices. Six columns.
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      number: try row.account(), devices: [], identityKey: row.optionalOpaque(), supportsSMS: try row.boolean(),
      voice: try row.boolean(), registrationLock: try row.optionalPassword())
  }
}

extension Device {
  /// nil for the row of an account without devices. The device's id, and `DeviceColumns`.
  fileprivate init?(
    optional row: inout PostgresRow, of number: AccountNumber, sealer: SecretSealer
  ) throws(StoreError) {
    guard !row.isNull else { return nil }
    self.init(
      id: try row.device(), password: PasswordHash(salt: try row.bytes(), hash: try row.bytes()),
      signalingKey: try sealer.open(row.bytes(), of: number), registrationID: try row.integer(),
      fetchesMessages: try row.boolean(), pushIDs: PushIDs(row: &row),
      pushRegistered: try row.optionalTimestamp(), name: row.optionalOpaque(), userAgent: row.optionalOpaque(),
      hasSignedPreKey: try row.boolean(), lastSeen: try row.timestamp(), created: try row.timestamp())
  }
}

extension PushIDs {
  fileprivate init(row: inout PostgresRow) {
    self.init()
    for kind in PushIDKind.allCases { self[kind] = row.optionalOpaque().map(Secret.init) }
  }
}
