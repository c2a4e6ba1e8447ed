package import RelayCore

extension PostgresStorage {
  /// The try decides, and holds the code's row to the end; the steps behind it do something only when it confirmed.
  package func register(_ registration: Registration, proof: RegistrationProof, now: Timestamp)
    async throws(StoreError) -> RegistrationOutcome
  {
    let token = try await tokens().seal(registration.token)
    let ban = try await knownCodes.value(in: self).banMark(of: registration.number)
    let proof = try await knownCodes.stored(proof, of: registration.number, in: self)
    let results = try await write([
      Self.turnStep(registration.number),
      Self.lockStep(registration.number),
      Self.tryStep(registration, token, proof: proof, ban: ban, now: now),
      Self.removeStep(registration.number),
      Self.revisionStep(registration, token, now: now),
      // The device first: that a device 1 is written clears the lock (`AccountSchema`).
      try deviceStep(registration),
      Self.accountStep(registration, token, proof: proof, now: now),
      Self.spendStep(registration.number, triesMax: proof.triesMax),
    ])
    guard let decision = results.dropFirst(2).first, decision.rowCount == 1 else { return .codeRefused }
    var row = decision.cursor(row: 0)
    let (isConfirmed, isRight, isUnlocked) = (try row.boolean(), try row.boolean(), try row.boolean())
    let isBanned = try row.boolean()
    guard isRight else {
      if case .code = proof { return .codeRefused }
      return .tokenRefused
    }
    guard !isBanned else { return .banned }
    guard isUnlocked else { return .locked }
    return isConfirmed ? .registered : .numberElsewhere
  }

  /// Registrations of a number take turns, also while it has no account whose row could be locked: the registration
  /// lock that the try finds is the one that stands when the new installation is written. The server shows the locks that
  /// are waited for, in its log too: one of 65,536 says too little of a number, and others rarely wait for it.
  static func turnStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep(
      .prepared("register_turn", "SELECT 1 FROM pg_advisory_xact_lock((hashint8($1::bigint) & 65535)::bigint)"),
      PostgresParameters { $0.add(account: number) })
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
    PostgresStep(
      .prepared(
        "register_try",
        """
        UPDATE verification_codes AS v
        SET tries = v.tries + CASE WHEN v.code = $2::bytea AND c.is_unlocked THEN 0 ELSE 1 END,
          confirmed = v.code = $2::bytea AND c.is_unlocked AND c.is_ours AND NOT c.is_banned
        FROM (
          SELECT coalesce(
              (
                SELECT registration_lock_salt IS NOT DISTINCT FROM $5::bytea
                  AND registration_lock_hash IS NOT DISTINCT FROM $6::bytea
                FROM accounts WHERE account = $1::bigint
              ), $5::bytea IS NULL) AS is_unlocked,
            NOT $7::boolean OR EXISTS (SELECT FROM accounts WHERE account = $1::bigint)
            OR NOT EXISTS (
              SELECT FROM peer_contacts AS c JOIN peers AS p ON p.name = c.peer
              WHERE c.token = $4::bytea AND c.unlisted IS NULL AND p.state = 'active' AND p.contacts_mode = 'copy') AS is_ours,
            EXISTS (SELECT FROM banned_numbers WHERE mark = $8::bytea) AS is_banned
        ) AS c
        WHERE v.account = $1::bigint AND v.expires > $3::bigint
        RETURNING v.confirmed, v.code = $2::bytea AS is_right, c.is_unlocked, c.is_banned
        """),
      PostgresParameters {
        $0.add(account: registration.number)
        $0.add(code: code)
        $0.add(bigint: now.millis)
        $0.add(token: token)
        $0.add(password: registration.satisfiedLock)
        $0.add(boolean: registration.respectsClaims)
        $0.add(code: ban)
      })
  }

  /// Stands in for a code that was right, unless a token of that second is void: from here on a registration goes the
  /// same way. A pending code is used up with it.
  private static func tokenStep(
    _ registration: Registration, second: Int64, ban: StoredCode
  ) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_token",
        """
        WITH decision AS MATERIALIZED (
            SELECT a.registration_lock_salt IS NOT DISTINCT FROM $2::bytea
                AND a.registration_lock_hash IS NOT DISTINCT FROM $3::bytea AS is_unlocked,
              coalesce($4::bigint > a.number_token_floor, true) AS is_new,
              EXISTS (SELECT FROM banned_numbers WHERE mark = $5::bytea) AS is_banned
            FROM (SELECT) AS one LEFT JOIN accounts AS a ON a.account = $1::bigint
          ),
          confirmed AS (
            INSERT INTO verification_codes (account, code, expires, tries, confirmed)
            SELECT $1::bigint, ''::bytea, 0, 0, true FROM decision WHERE is_unlocked AND is_new AND NOT is_banned
            ON CONFLICT (account) DO UPDATE SET confirmed = true
          )
        SELECT is_unlocked AND is_new AND NOT is_banned, is_new, is_unlocked, is_banned FROM decision
        """),
      PostgresParameters {
        $0.add(account: registration.number)
        $0.add(password: registration.satisfiedLock)
        $0.add(bigint: second)
        $0.add(code: ban)
      })
  }

  /// The former installation. Its mailboxes remember nothing: the new one begins with empty ones. Each table is told the
  /// account itself: so the look-up goes by key, whatever its statistics say.
  private static func removeStep(_ number: AccountNumber) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_remove",
        """
        WITH confirmed AS MATERIALIZED (
            SELECT FROM verification_codes WHERE account = $1::bigint AND confirmed
          ),
          queued AS (DELETE FROM messages AS t USING confirmed AS c WHERE t.account = $1::bigint),
          acknowledged AS (DELETE FROM acknowledged AS t USING confirmed AS c WHERE t.account = $1::bigint),
          one_time AS (DELETE FROM one_time_prekeys AS t USING confirmed AS c WHERE t.account = $1::bigint),
          last_resort AS (DELETE FROM last_resort_prekeys AS t USING confirmed AS c WHERE t.account = $1::bigint),
          links AS (DELETE FROM linking_codes AS t USING confirmed AS c WHERE t.account = $1::bigint)
        DELETE FROM devices AS t USING confirmed AS c WHERE t.account = $1::bigint
        """), PostgresParameters { $0.add(account: number) })
  }

  /// Only when peers have something new to read.
  private static func revisionStep(_ registration: Registration, _ token: StoredToken, now: Timestamp) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_revision",
        """
        UPDATE revisions SET value = value + 1
        WHERE subject = 'accounts'
          AND EXISTS (SELECT FROM verification_codes WHERE account = $1::bigint AND confirmed)
          AND (
            $3::boolean
              AND coalesce($6::boolean, (SELECT discoverable FROM accounts WHERE account = $1::bigint), true)
            OR EXISTS (SELECT FROM accounts WHERE account = $1::bigint AND active AND discoverable))
          AND NOT EXISTS (
            SELECT FROM accounts WHERE account = $1::bigint AND token = $2::bytea AND active = $3::boolean
              AND supports_sms = $4::boolean AND voice = $5::boolean
              AND discoverable = coalesce($6::boolean, discoverable))
        """), listing(registration, token, now: now))
  }

  /// From here on no number token holds that was drawn before, here or elsewhere.
  private static func accountStep(
    _ registration: Registration, _ token: StoredToken, proof: StoredProof, now: Timestamp
  ) -> PostgresStep {
    var parameters = listing(registration, token, now: now)
    parameters.add(password: registration.newLock)
    parameters.add(bigint: max(now.second, proof.second))
    return PostgresStep(
      .prepared(
        "register_account",
        """
        INSERT INTO accounts (account, token, active, supports_sms, voice, discoverable, registration_lock_salt,
          registration_lock_hash, number_token_floor)
        SELECT account, $2::bytea, $3::boolean, $4::boolean, $5::boolean, coalesce($6::boolean, true), $7::bytea,
          $8::bytea, $9::bigint
        FROM verification_codes WHERE account = $1::bigint AND confirmed
        ON CONFLICT (account) DO UPDATE SET token = excluded.token, active = excluded.active,
          supports_sms = excluded.supports_sms, voice = excluded.voice,
          discoverable = coalesce($6::boolean, accounts.discoverable), identity_key = NULL,
          registration_lock_salt = excluded.registration_lock_salt,
          registration_lock_hash = excluded.registration_lock_hash,
          number_token_floor =
            greatest(excluded.number_token_floor, accounts.number_token_drawn, accounts.number_token_floor)
        """), parameters)
  }

  private func deviceStep(_ registration: Registration) throws(StoreError) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_device",
        """
        INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, gcm_id, apn_id, voip_apn_id, push_registered, name, user_agent, has_signed_prekey,
          last_seen, created, web_push)
        SELECT account, $2::integer, $3::bytea, $4::bytea, $5::bytea, $6::integer,
          $7::boolean, $8::bytea, $9::bytea, $10::bytea, $11::bigint, $12::bytea, $13::bytea, $14::boolean,
          $15::bigint, $16::bigint, $17::bytea
        FROM verification_codes WHERE account = $1::bigint AND confirmed
        """), try columns(of: registration.device, in: registration.number, id: registration.device.id))
  }

  static func spendStep(_ number: AccountNumber, triesMax: Int64) -> PostgresStep {
    PostgresStep(
      .prepared(
        "register_spend",
        "DELETE FROM verification_codes WHERE account = $1::bigint AND (confirmed OR tries >= $2::bigint)"),
      PostgresParameters {
        $0.add(account: number)
        $0.add(bigint: triesMax)
      })
  }

  private static func listing(_ registration: Registration, _ token: StoredToken, now: Timestamp) -> PostgresParameters
  {
    // Whether it is active is `Account`'s rule.
    let account = Account(
      number: registration.number, devices: [registration.device], identityKey: nil,
      supportsSMS: registration.supportsSMS, voice: registration.voice)
    return PostgresParameters {
      $0.add(account: registration.number)
      $0.add(token: token)
      $0.add(boolean: account.isActive(at: now))
      $0.add(boolean: registration.supportsSMS)
      $0.add(boolean: registration.voice)
      $0.add(boolean: registration.isDiscoverable)
    }
  }
}
