package import RelayCore

extension PostgresStorage {
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    // One statement, so that account and devices are of one moment.
    let result = try await read(
      .prepared(
        "account",
        """
        SELECT a.identity_key, a.supports_sms, a.voice,
          d.device, d.password_salt, d.password_hash, d.signaling_key, d.registration_id, d.fetches_messages,
          d.gcm_id, d.apn_id, d.voip_apn_id, d.name, d.user_agent, d.has_signed_prekey, d.last_seen, d.created
        FROM accounts AS a LEFT JOIN devices AS d ON d.account = a.account
        WHERE a.account = $1::bigint
        ORDER BY d.device
        """), PostgresParameters { $0.add(account: number) })
    var account: Account?
    for index in result.rows {
      var row = result.cursor(row: index)
      let (identityKey, supportsSMS, voice) = (row.optionalOpaque(), try row.boolean(), try row.boolean())
      var found =
        account
        ?? Account(number: number, devices: [], identityKey: identityKey, supportsSMS: supportsSMS, voice: voice)
      if let device = try Self.device(&row) { found.devices.append(device) }
      account = found
    }
    return account
  }

  package func setVerificationCode(_ code: VerificationCode, for number: AccountNumber) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "set_verification_code",
        """
        INSERT INTO verification_codes (account, code, expires, tries) VALUES ($1::bigint, $2::bytea, $3::bigint, 0)
        ON CONFLICT (account) DO UPDATE SET code = excluded.code, expires = excluded.expires, tries = 0
        """),
      PostgresParameters {
        $0.add(account: number)
        $0.add(opaque: code.code.value)
        $0.add(bigint: code.expires.millis)
      })
  }

  /// The try decides, and holds the code's row to the end; the steps behind it do something only when it confirmed.
  package func register(
    _ registration: Registration, code: Secret, triesMax: Int, now: Timestamp
  ) async throws(StoreError) -> RegistrationOutcome {
    let results = try await write([
      Self.lockStep(registration.number),
      Self.tryStep(registration, code: code, now: now),
      Self.removeStep(registration.number),
      Self.revisionStep(registration, now: now),
      Self.accountStep(registration, now: now),
      Self.deviceStep(registration),
      Self.spendStep(registration.number, triesMax: triesMax),
    ])
    guard let decision = results.dropFirst().first, decision.rowCount == 1 else { return .codeRefused }
    var row = decision.cursor(row: 0)
    let (isConfirmed, isRight) = (try row.boolean(), try row.boolean())
    return isConfirmed ? .registered : isRight ? .numberElsewhere : .codeRefused
  }
}

// MARK: - The steps of a registration

extension PostgresStorage {
  /// Every change of keys takes the account's row first, so that no two wait for each other in a circle.
  private static func lockStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep(
      .prepared("register_lock", "SELECT 1 FROM accounts WHERE account = $1::bigint FOR UPDATE"),
      PostgresParameters { $0.add(account: number) })
  }

  /// Confirmed is a right code for a number that has an account here or that no active peer lists.
  private static func tryStep(_ registration: Registration, code: Secret, now: Timestamp) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_try",
        """
        UPDATE verification_codes
        SET tries = tries + CASE WHEN code = $2::bytea THEN 0 ELSE 1 END,
          confirmed = code = $2::bytea AND (
            EXISTS (SELECT FROM accounts WHERE account = $1::bigint)
            OR NOT EXISTS (
              SELECT FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
              WHERE c.token = $4::bytea AND p.state = 'active'))
        WHERE account = $1::bigint AND expires > $3::bigint
        RETURNING confirmed, code = $2::bytea AS is_right
        """),
      PostgresParameters {
        $0.add(account: registration.number)
        $0.add(opaque: code.value)
        $0.add(bigint: now.millis)
        $0.add(bytea: registration.token.bytes)
      })
  }

  /// The former installation. Its mailboxes remember nothing: the new one begins with empty ones.
  private static func removeStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_remove",
        """
        WITH confirmed AS MATERIALIZED (
            SELECT account FROM verification_codes WHERE account = $1::bigint AND confirmed
          ),
          queued AS (DELETE FROM messages AS t USING confirmed AS c WHERE t.account = c.account),
          acknowledged AS (DELETE FROM acknowledged AS t USING confirmed AS c WHERE t.account = c.account),
          one_time AS (DELETE FROM one_time_prekeys AS t USING confirmed AS c WHERE t.account = c.account),
          last_resort AS (DELETE FROM last_resort_prekeys AS t USING confirmed AS c WHERE t.account = c.account)
        DELETE FROM devices AS t USING confirmed AS c WHERE t.account = c.account
        """), PostgresParameters { $0.add(account: number) })
  }

  /// Only when peers have something new to read.
  private static func revisionStep(_ registration: Registration, now: Timestamp) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_revision",
        """
        UPDATE revisions SET value = value + 1
        WHERE subject = 'accounts'
          AND EXISTS (SELECT FROM verification_codes WHERE account = $1::bigint AND confirmed)
          AND NOT EXISTS (
            SELECT FROM accounts WHERE account = $1::bigint AND token = $2::bytea AND active = $3::boolean
              AND supports_sms = $4::boolean AND voice = $5::boolean)
        """), listing(registration, now: now))
  }

  private static func accountStep(_ registration: Registration, now: Timestamp) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_account",
        """
        INSERT INTO accounts (account, token, active, supports_sms, voice)
        SELECT account, $2::bytea, $3::boolean, $4::boolean, $5::boolean
        FROM verification_codes WHERE account = $1::bigint AND confirmed
        ON CONFLICT (account) DO UPDATE SET token = excluded.token, active = excluded.active,
          supports_sms = excluded.supports_sms, voice = excluded.voice, identity_key = NULL
        """), listing(registration, now: now))
  }

  private static func deviceStep(_ registration: Registration) -> PostgresStep {
    let device = registration.device
    return PostgresStep(
      .prepared(
        "register_device",
        """
        INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, gcm_id, apn_id, voip_apn_id, name, user_agent, has_signed_prekey, last_seen, created)
        SELECT account, $2::integer, $3::bytea, $4::bytea, $5::bytea, $6::integer,
          $7::boolean, $8::bytea, $9::bytea, $10::bytea, $11::bytea, $12::bytea, $13::boolean, $14::bigint, $15::bigint
        FROM verification_codes WHERE account = $1::bigint AND confirmed
        """),
      PostgresParameters {
        $0.add(account: registration.number)
        $0.add(device: device.id)
        $0.add(bytea: device.password.salt)
        $0.add(bytea: device.password.hash)
        $0.add(opaque: device.signalingKey.value)
        $0.add(integer: device.registrationID)
        $0.add(boolean: device.fetchesMessages)
        $0.add(opaque: device.gcmID?.value)
        $0.add(opaque: device.apnID?.value)
        $0.add(opaque: device.voipApnID?.value)
        $0.add(opaque: device.name)
        $0.add(opaque: device.userAgent)
        $0.add(boolean: device.hasSignedPreKey)
        $0.add(bigint: device.lastSeen.millis)
        $0.add(bigint: device.created.millis)
      })
  }

  private static func spendStep(_ number: AccountNumber, triesMax: Int) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_spend",
        "DELETE FROM verification_codes WHERE account = $1::bigint AND (confirmed OR tries >= $2::bigint)"),
      PostgresParameters {
        $0.add(account: number)
        $0.add(bigint: Int64(triesMax))
      })
  }

  private static func listing(_ registration: Registration, now: Timestamp) -> PostgresParameters {
    // Whether it is active is `Account`'s rule.
    let account = Account(
      number: registration.number, devices: [registration.device], identityKey: nil,
      supportsSMS: registration.supportsSMS, voice: registration.voice)
    return PostgresParameters {
      $0.add(account: registration.number)
      $0.add(bytea: registration.token.bytes)
      $0.add(boolean: account.isActive(at: now))
      $0.add(boolean: registration.supportsSMS)
      $0.add(boolean: registration.voice)
    }
  }

  /// - Returns: nil for the row of an account without devices.
  private static func device(_ row: inout PostgresRow) throws(StoreError) -> Device? {
    guard !row.isNull else { return nil }
    return Device(
      id: try row.device(), password: PasswordHash(salt: try row.bytes(), hash: try row.bytes()),
      signalingKey: Secret(try row.opaque()), registrationID: try row.integer(), fetchesMessages: try row.boolean(),
      gcmID: row.optionalOpaque().map(Secret.init), apnID: row.optionalOpaque().map(Secret.init),
      voipApnID: row.optionalOpaque().map(Secret.init), name: row.optionalOpaque(), userAgent: row.optionalOpaque(),
      hasSignedPreKey: try row.boolean(), lastSeen: try row.timestamp(), created: try row.timestamp())
  }
}
