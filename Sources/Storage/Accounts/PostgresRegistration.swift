package import RelayCore

extension PostgresStorage {
  /// The try decides, and holds the code's row to the end; the steps behind it do something only when it confirmed.
  package func register(_ registration: Registration, proof: RegistrationProof, now: Timestamp)
    async throws(StoreError) -> RegistrationOutcome
  {
    let token = try await tokens().seal(registration.token)
    let ban = try await knownCodes.value(in: self).banMark(of: registration.number)
    let proof = try await knownCodes.stored(proof, of: registration.number, in: self)
    let listed = Listed(registration, token, now: now)
    let results = try await write([
      Self.turnStep(registration.number),
      Self.lockStep(registration.number),
      Self.tryStep(registration, token, proof: proof, ban: ban, now: now),
      Self.removeStep(registration.number),
      Self.revisionStep(listed),
      // The device first: that a device 1 is written clears the lock (`AccountSchema`).
      try deviceStep(registration),
      Self.accountStep(listed, lock: registration.newLock, floor: max(now.second, proof.second)),
      Self.spendStep(registration.number, triesMax: proof.triesMax),
    ])
    guard let decision = try results[2].first(Decision.init(row:)) else { return .codeRefused }
    guard decision.isRight else {
      if case .code = proof { return .codeRefused }
      return .tokenRefused
    }
    guard !decision.isBanned else { return .banned }
    guard decision.isUnlocked else { return .locked }
    return decision.isConfirmed ? .registered : .numberElsewhere
  }

  /// Registrations of a number take turns, also while it has no account whose row could be locked: the registration
  /// lock that the try finds is the one that stands when the new installation is written. The server shows the locks
  /// that are waited for, in its log too: one of 65,536 says too little of a number, and others rarely wait for it.
  static func turnStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep(
      "register_turn", "SELECT 1 FROM pg_advisory_xact_lock((hashint8(\(number)) & 65535)::bigint)")
  }

  private static func tryStep(
    _ registration: Registration, _ token: StoredToken, proof: StoredProof, ban: StoredCode, now: Timestamp
  ) -> PostgresStep {
    switch proof {
    case .code(let code, _): codeStep(registration, token, code: code, ban: ban, now: now)
    case .numberToken(let second): tokenStep(registration, second: second, ban: ban)
    // Above every floor.
    case .trusted: tokenStep(registration, second: .max, ban: ban)
    }
  }

  /// Confirmed is a right code, with the right registration lock, for a number that has an account here or that no
  /// active peer lists, where that counts. A number without an account has no lock.
  private static func codeStep(
    _ registration: Registration, _ token: StoredToken, code: StoredCode, ban: StoredCode, now: Timestamp
  ) -> PostgresStep {
    let (account, code) = (PostgresParameter(registration.number), PostgresParameter(code))
    let salt = PostgresParameter(registration.satisfiedLock?.salt)
    return PostgresStep(
      "register_try",
      """
      UPDATE verification_codes AS v
      SET tries = v.tries + CASE WHEN v.code = \(code) AND c.is_unlocked THEN 0 ELSE 1 END,
        confirmed = v.code = \(code) AND c.is_unlocked AND c.is_ours AND NOT c.is_banned
      FROM (
        SELECT coalesce(
            (
              SELECT registration_lock_salt IS NOT DISTINCT FROM \(salt)
                AND registration_lock_hash IS NOT DISTINCT FROM \(registration.satisfiedLock?.hash)
              FROM accounts WHERE account = \(account)
            ), \(salt) IS NULL) AS is_unlocked,
          NOT \(registration.respectsClaims) OR EXISTS (SELECT FROM accounts WHERE account = \(account))
          OR NOT EXISTS (
            SELECT FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
            WHERE c.token = \(token) AND c.unlisted IS NULL AND p.state = 'active' AND p.contacts_mode = 'copy')
            AS is_ours,
          EXISTS (SELECT FROM banned_numbers WHERE mark = \(ban)) AS is_banned
      ) AS c
      WHERE v.account = \(account) AND v.expires > \(now)
      RETURNING v.confirmed, v.code = \(code) AS is_right, c.is_unlocked, c.is_banned
      """)
  }

  /// Stands in for a code that was right, unless a token of that second is void: from here on a registration goes the
  /// same way. A pending code is used up with it.
  private static func tokenStep(
    _ registration: Registration, second: Int64, ban: StoredCode
  ) -> PostgresStep {
    let account = PostgresParameter(registration.number)
    return PostgresStep(
      "register_token",
      """
      WITH decision AS MATERIALIZED (
          SELECT a.registration_lock_salt IS NOT DISTINCT FROM \(registration.satisfiedLock?.salt)
              AND a.registration_lock_hash IS NOT DISTINCT FROM \(registration.satisfiedLock?.hash) AS is_unlocked,
            coalesce(\(second) > a.number_token_floor, true) AS is_new,
            EXISTS (SELECT FROM banned_numbers WHERE mark = \(ban)) AS is_banned
          FROM (SELECT) AS one LEFT JOIN accounts AS a ON a.account = \(account)
        ),
        confirmed AS (
          INSERT INTO verification_codes (account, code, expires, tries, confirmed)
          SELECT \(account), ''::bytea, 0, 0, true FROM decision WHERE is_unlocked AND is_new AND NOT is_banned
          ON CONFLICT (account) DO UPDATE SET confirmed = true
        )
      SELECT is_unlocked AND is_new AND NOT is_banned, is_new, is_unlocked, is_banned FROM decision
      """)
  }

  /// The former installation. Its mailboxes remember nothing: the new one begins with empty ones. Each table is told
  /// the account itself: so the look-up goes by key, whatever its statistics say, and to the server that has it.
  private static func removeStep(_ number: AccountNumber) -> PostgresStep {
    let account = PostgresParameter(number)
    return PostgresStep(
      "register_remove",
      """
      WITH confirmed AS MATERIALIZED (
          SELECT 1 FROM verification_codes WHERE account = \(account) AND confirmed
        ),
        queued AS (DELETE FROM messages AS t USING confirmed AS c WHERE t.account = \(account)),
        acknowledged AS (DELETE FROM acknowledged AS t USING confirmed AS c WHERE t.account = \(account)),
        one_time AS (DELETE FROM one_time_prekeys AS t USING confirmed AS c WHERE t.account = \(account)),
        last_resort AS (DELETE FROM last_resort_prekeys AS t USING confirmed AS c WHERE t.account = \(account)),
        links AS (DELETE FROM linking_codes AS t USING confirmed AS c WHERE t.account = \(account))
      DELETE FROM devices AS t USING confirmed AS c WHERE t.account = \(account)
      """)
  }

  /// Only when peers have something new to read.
  private static func revisionStep(_ listed: Listed) -> PostgresStep {
    PostgresStep(
      "register_revision",
      """
      UPDATE revisions SET value = value + 1
      WHERE subject = 'accounts'
        AND EXISTS (SELECT FROM verification_codes WHERE account = \(listed.account) AND confirmed)
        AND (
          \(listed.isActive)
            AND coalesce(
              \(listed.isDiscoverable), (SELECT discoverable FROM accounts WHERE account = \(listed.account)), true)
          OR EXISTS (SELECT FROM accounts WHERE account = \(listed.account) AND active AND discoverable))
        AND NOT EXISTS (
          SELECT FROM accounts WHERE account = \(listed.account) AND token = \(listed.token)
            AND active = \(listed.isActive) AND supports_sms = \(listed.supportsSMS) AND voice = \(listed.voice)
            AND discoverable = coalesce(\(listed.isDiscoverable), discoverable))
      """)
  }

  /// From here on no number token holds that was drawn before, here or elsewhere.
  /// - Parameter floor: a second; tokens up to it are void.
  private static func accountStep(_ listed: Listed, lock: PasswordHash?, floor: Int64) -> PostgresStep {
    PostgresStep(
      "register_account",
      """
      INSERT INTO accounts (account, token, active, supports_sms, voice, discoverable, registration_lock_salt,
        registration_lock_hash, number_token_floor)
      SELECT account, \(listed.token), \(listed.isActive), \(listed.supportsSMS), \(listed.voice),
        coalesce(\(listed.isDiscoverable), true), \(lock?.salt), \(lock?.hash), \(floor)
      FROM verification_codes WHERE account = \(listed.account) AND confirmed
      ON CONFLICT (account) DO UPDATE SET token = excluded.token, active = excluded.active,
        supports_sms = excluded.supports_sms, voice = excluded.voice,
        discoverable = coalesce(\(listed.isDiscoverable), accounts.discoverable), identity_key = NULL,
        registration_lock_salt = excluded.registration_lock_salt,
        registration_lock_hash = excluded.registration_lock_hash,
        number_token_floor =
          greatest(excluded.number_token_floor, accounts.number_token_drawn, accounts.number_token_floor)
      """)
  }

  private func deviceStep(_ registration: Registration) throws(StoreError) -> PostgresStep {
    let (account, device) = (registration.number, registration.device)
    let signalingKey = try sealer.seal(device.signalingKey, of: account)
    return PostgresStep(
      "register_device",
      """
      INSERT INTO devices (account, device, \(DeviceColumns.self))
      SELECT account, \(device.id), \(DeviceColumns.values(of: device, signalingKey: signalingKey))
      FROM verification_codes WHERE account = \(account) AND confirmed
      """)
  }

  static func spendStep(_ number: AccountNumber, triesMax: Int64) -> PostgresStep {
    PostgresStep(
      "register_spend",
      "DELETE FROM verification_codes WHERE account = \(number) AND (confirmed OR tries >= \(triesMax))")
  }
}

/// The account's columns that peers read, as the registration writes them.
private struct Listed {
  let account: PostgresParameter
  let token: PostgresParameter
  let isActive: PostgresParameter
  let supportsSMS: PostgresParameter
  let voice: PostgresParameter
  /// NULL leaves the column.
  let isDiscoverable: PostgresParameter

  init(_ registration: Registration, _ token: StoredToken, now: Timestamp) {
    // Whether it is active is `Account`'s rule.
    let account = Account(
      number: registration.number, devices: [registration.device], identityKey: nil,
      supportsSMS: registration.supportsSMS, voice: registration.voice)
    self.account = PostgresParameter(registration.number)
    self.token = PostgresParameter(token)
    isActive = PostgresParameter(account.isActive(at: now))
    supportsSMS = PostgresParameter(registration.supportsSMS)
    voice = PostgresParameter(registration.voice)
    isDiscoverable = PostgresParameter(registration.isDiscoverable)
  }
}

/// The answer of the try.
private struct Decision {
  let isConfirmed: Bool
  /// The code, or the token.
  let isRight: Bool
  let isUnlocked: Bool
  let isBanned: Bool

  init(row: inout PostgresRow) throws(StoreError) {
    isConfirmed = try row.boolean()
    isRight = try row.boolean()
    isUnlocked = try row.boolean()
    isBanned = try row.boolean()
  }
}
