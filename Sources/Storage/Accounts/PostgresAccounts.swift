package import RelayCore

extension PostgresStorage {
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    // One statement, so that account and devices are of one moment.
    let result = try await read(
      .prepared(
        "account",
        """
        SELECT a.identity_key, a.supports_sms, a.voice, a.registration_lock_salt, a.registration_lock_hash,
          d.device, d.password_salt, d.password_hash, d.signaling_key, d.registration_id, d.fetches_messages,
          d.gcm_id, d.apn_id, d.voip_apn_id, d.push_registered, d.name, d.user_agent, d.has_signed_prekey, d.last_seen,
          d.created, d.web_push
        FROM accounts AS a LEFT JOIN devices AS d ON d.account = a.account
        WHERE a.account = $1::bigint
        ORDER BY d.device
        """), PostgresParameters { $0.add(account: number) })
    var account: Account?
    for index in result.rows {
      var row = result.cursor(row: index)
      let (identityKey, supportsSMS, voice) = (row.optionalOpaque(), try row.boolean(), try row.boolean())
      let lock = try row.optionalPassword()
      var found =
        account
        ?? Account(
          number: number, devices: [], identityKey: identityKey, supportsSMS: supportsSMS, voice: voice,
          registrationLock: lock)
      if let device = try device(&row, of: number) { found.devices.append(device) }
      account = found
    }
    return account
  }

  /// - Returns: nil for the row of an account without devices.
  private func device(_ row: inout PostgresRow, of number: AccountNumber) throws(StoreError) -> Device? {
    guard !row.isNull else { return nil }
    var device = Device(
      id: try row.device(), password: PasswordHash(salt: try row.bytes(), hash: try row.bytes()),
      signalingKey: try sealer.open(row.bytes(), of: number), registrationID: try row.integer(),
      fetchesMessages: try row.boolean(), gcmID: row.optionalOpaque().map(Secret.init),
      apnID: row.optionalOpaque().map(Secret.init), voipApnID: row.optionalOpaque().map(Secret.init),
      pushRegistered: try row.optionalTimestamp(), name: row.optionalOpaque(), userAgent: row.optionalOpaque(),
      hasSignedPreKey: try row.boolean(), lastSeen: try row.timestamp(), created: try row.timestamp())
    device.webPushID = row.optionalOpaque().map(Secret.init)
    return device
  }

  package func accounts(holding tokens: [ContactToken]) async throws(StoreError) -> [AccountNumber] {
    guard !tokens.isEmpty else { return [] }
    let stored = try await self.tokens().seal(tokens)
    let result = try await read(
      .prepared(
        "accounts_holding",
        """
        SELECT DISTINCT ON (token) account FROM accounts WHERE token = ANY ($1::bytea[]) ORDER BY token, account
        """), PostgresParameters { $0.add(tokens: stored) })
    var numbers: [AccountNumber] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      numbers.append(try row.account())
    }
    return numbers
  }

  package func setVerificationCode(_ code: VerificationCode, for number: AccountNumber, purpose: CodePurpose)
    async throws(StoreError)
  {
    let statement: PostgresStatement =
      switch purpose {
      case .registration:
        .prepared(
          "set_verification_code",
          """
          INSERT INTO verification_codes (account, code, expires, tries) VALUES ($1::bigint, $2::bytea, $3::bigint, 0)
          ON CONFLICT (account) DO UPDATE SET code = excluded.code, expires = excluded.expires, tries = 0
          """)
      case .linking:
        .prepared(
          "set_linking_code",
          """
          INSERT INTO linking_codes (account, code, expires, tries) VALUES ($1::bigint, $2::bytea, $3::bigint, 0)
          ON CONFLICT (account) DO UPDATE SET code = excluded.code, expires = excluded.expires, tries = 0
          """)
      }
    let stored = try await knownCodes.value(in: self).stored(code.code, purpose, of: number)
    _ = try await write(
      statement,
      PostgresParameters {
        $0.add(account: number)
        $0.add(code: stored)
        $0.add(bigint: code.expires.millis)
      })
  }
}

// MARK: - What changes of accounts have in common

extension PostgresStorage {
  /// Whatever changes an account's devices or keys takes the account's row first: such changes take turns, see each
  /// other's work, and never wait for each other in a circle.
  static func lockStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep(
      .prepared("lock_account", "SELECT 1 FROM accounts WHERE account = $1::bigint FOR UPDATE"),
      PostgresParameters { $0.add(account: number) })
  }

  /// The account and all columns of `device` behind its id.
  /// - Parameter id: the id itself, where the statement does not find it.
  func columns(of device: Device, in account: AccountNumber, id: DeviceID? = nil) throws(StoreError)
    -> PostgresParameters
  {
    let signalingKey = try sealer.seal(device.signalingKey, of: account)
    return PostgresParameters {
      $0.add(account: account)
      if let id { $0.add(device: id) }
      $0.add(password: device.password)
      $0.add(bytea: signalingKey)
      $0.add(integer: device.registrationID)
      $0.add(boolean: device.fetchesMessages)
      $0.add(opaque: device.gcmID?.value)
      $0.add(opaque: device.apnID?.value)
      $0.add(opaque: device.voipApnID?.value)
      $0.add(bigint: device.pushRegistered?.millis)
      $0.add(opaque: device.name)
      $0.add(opaque: device.userAgent)
      $0.add(boolean: device.hasSignedPreKey)
      $0.add(bigint: device.lastSeen.millis)
      $0.add(bigint: device.created.millis)
      $0.add(opaque: device.webPushID?.value)
    }
  }
}
