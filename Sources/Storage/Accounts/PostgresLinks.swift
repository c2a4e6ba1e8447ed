package import RelayCore

extension PostgresStorage {
  /// As a registration: the try decides, here by giving out an id, and the steps behind it do something only then.
  package func linkDevice(_ link: DeviceLink, code: Secret, triesMax: Int, now: Timestamp) async throws(StoreError)
    -> LinkOutcome
  {
    let code = try await knownCodes.value(in: self).stored(code, .linking, of: link.account)
    let results = try await write([
      Self.lockStep(link.account),
      tryStep(link, code: code, now: now),
      Self.replaceStep(link.account),
      try deviceStep(link),
      Self.spendStep(link.account, triesMax: triesMax),
    ])
    guard let decision = results.dropFirst().first, decision.rowCount == 1 else { return .codeRefused }
    var row = decision.cursor(row: 0)
    let (isRight, active) = (try row.boolean(), try row.bigint())
    guard isRight else { return .codeRefused }
    return row.isNull ? .tooManyDevices(current: Int(active)) : .linked(try row.device())
  }

  /// Which devices are active is `Device`'s rule. One that a wrong clock calls inactive keeps its place, and what waits for it.
  private func tryStep(_ link: DeviceLink, code: StoredCode, now: Timestamp) -> PostgresStep {
    PostgresStep(
      .prepared(
        "link_try",
        """
        UPDATE linking_codes AS l
        SET tries = l.tries + CASE WHEN l.code = $2::bytea THEN 0 ELSE 1 END,
          device = CASE WHEN l.code = $2::bytea AND c.active < $4::bigint THEN c.free END
        FROM (
          SELECT count(*) FILTER (WHERE d.is_active) AS active,
            coalesce(min(d.device) FILTER (WHERE d.device > 1 AND NOT d.is_active), greatest(max(d.device), 1) + 1)
              AS free
          FROM (
            SELECT device, (fetches_messages OR gcm_id IS NOT NULL OR apn_id IS NOT NULL OR web_push IS NOT NULL)
              AND (device = 1 OR has_signed_prekey AND last_seen >= $5::bigint) AS is_active
            FROM devices WHERE account = $1::bigint
          ) AS d
        ) AS c
        WHERE l.account = $1::bigint AND l.expires > $3::bigint
          AND EXISTS (SELECT FROM accounts WHERE account = $1::bigint)
        RETURNING l.code = $2::bytea AS is_right, c.active, l.device
        """),
      PostgresParameters {
        $0.add(account: link.account)
        $0.add(code: code)
        $0.add(bigint: now.millis)
        $0.add(bigint: Int64(link.devicesMax))
        $0.add(bigint: (judge.time?.believed(now) ?? now).millis - Device.linkedActiveMillis)
      })
  }

  /// Whatever is left under the id, be it of an inactive device or of one that was removed while a message for it was
  /// on its way. Each table is told the account itself: so the look-up goes by key, whatever its statistics say.
  private static func replaceStep(_ account: AccountNumber) -> PostgresStep {
    PostgresStep(
      .prepared(
        "link_replace",
        """
        WITH given AS MATERIALIZED (
            SELECT device FROM linking_codes WHERE account = $1::bigint AND device IS NOT NULL
          ),
          queued AS (
            DELETE FROM messages AS t USING given AS g WHERE t.account = $1::bigint AND t.device = g.device
          ),
          acknowledged AS (
            DELETE FROM acknowledged AS t USING given AS g WHERE t.account = $1::bigint AND t.device = g.device
          ),
          one_time AS (
            DELETE FROM one_time_prekeys AS t USING given AS g WHERE t.account = $1::bigint AND t.device = g.device
          ),
          last_resort AS (
            DELETE FROM last_resort_prekeys AS t USING given AS g WHERE t.account = $1::bigint AND t.device = g.device
          )
        DELETE FROM devices AS t USING given AS g WHERE t.account = $1::bigint AND t.device = g.device
        """), PostgresParameters { $0.add(account: account) })
  }

  private func deviceStep(_ link: DeviceLink) throws(StoreError) -> PostgresStep {
    PostgresStep(
      .prepared(
        "link_device",
        """
        INSERT INTO devices (account, device, password_salt, password_hash, signaling_key, registration_id,
          fetches_messages, gcm_id, apn_id, voip_apn_id, push_registered, name, user_agent, has_signed_prekey,
          last_seen, created, web_push)
        SELECT account, device, $2::bytea, $3::bytea, $4::bytea, $5::integer,
          $6::boolean, $7::bytea, $8::bytea, $9::bytea, $10::bigint, $11::bytea, $12::bytea, $13::boolean,
          $14::bigint, $15::bigint, $16::bytea
        FROM linking_codes WHERE account = $1::bigint AND device IS NOT NULL
        """), try columns(of: link.device, in: link.account))
  }

  private static func spendStep(_ account: AccountNumber, triesMax: Int) -> PostgresStep {
    PostgresStep(
      .prepared(
        "link_spend",
        "DELETE FROM linking_codes WHERE account = $1::bigint AND (device IS NOT NULL OR tries >= $2::bigint)"),
      PostgresParameters {
        $0.add(account: account)
        $0.add(bigint: Int64(triesMax))
      })
  }
}
