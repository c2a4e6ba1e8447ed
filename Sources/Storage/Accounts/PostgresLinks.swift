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
    let outcome = try results[1].first { (row) throws(StoreError) -> LinkOutcome in
      let (isRight, active) = (try row.boolean(), try row.bigint())
      guard isRight else { return .codeRefused }
      return row.isNull ? .tooManyDevices(current: Int(active)) : .linked(try row.device())
    }
    return outcome ?? .codeRefused
  }

  /// Which devices are active is `Device`'s rule. One that a wrong clock calls inactive keeps its place, and what waits
  /// for it.
  private func tryStep(_ link: DeviceLink, code: StoredCode, now: Timestamp) -> PostgresStep {
    let (account, code) = (PostgresParameter(link.account), PostgresParameter(code))
    let activeSince = (judge.time?.believed(now) ?? now).millis - Device.linkedActiveMillis
    return PostgresStep(
      "link_try",
      """
      UPDATE linking_codes AS l
      SET tries = l.tries + CASE WHEN l.code = \(code) THEN 0 ELSE 1 END,
        device = CASE WHEN l.code = \(code) AND c.active < \(Int64(link.devicesMax)) THEN c.free END
      FROM (
        SELECT count(*) FILTER (WHERE d.is_active) AS active,
          coalesce(min(d.device) FILTER (WHERE d.device > 1 AND NOT d.is_active), greatest(max(d.device), 1) + 1)
            AS free
        FROM (
          SELECT device, \(isReachable: ())
            AND (device = 1 OR has_signed_prekey AND last_seen >= \(activeSince)) AS is_active
          FROM devices WHERE account = \(account)
        ) AS d
      ) AS c
      WHERE l.account = \(account) AND l.expires > \(now)
        AND EXISTS (SELECT FROM accounts WHERE account = \(account))
      RETURNING l.code = \(code) AS is_right, c.active, l.device
      """)
  }

  /// Everything left under the id, be it of an inactive device or of one that was removed while a message for it was
  /// on its way. Each table is told the account itself: so the look-up goes by key, whatever its statistics say.
  private static func replaceStep(_ account: AccountNumber) -> PostgresStep {
    let account = PostgresParameter(account)
    return PostgresStep(
      "link_replace",
      """
      WITH given AS MATERIALIZED (
          SELECT device FROM linking_codes WHERE account = \(account) AND device IS NOT NULL
        ),
        queued AS (
          DELETE FROM messages AS t USING given AS g WHERE t.account = \(account) AND t.device = g.device
        ),
        acknowledged AS (
          DELETE FROM acknowledged AS t USING given AS g WHERE t.account = \(account) AND t.device = g.device
        ),
        one_time AS (
          DELETE FROM one_time_prekeys AS t USING given AS g WHERE t.account = \(account) AND t.device = g.device
        ),
        last_resort AS (
          DELETE FROM last_resort_prekeys AS t USING given AS g WHERE t.account = \(account) AND t.device = g.device
        )
      DELETE FROM devices AS t USING given AS g WHERE t.account = \(account) AND t.device = g.device
      """)
  }

  private func deviceStep(_ link: DeviceLink) throws(StoreError) -> PostgresStep {
    let (account, device) = (link.account, link.device)
    let signalingKey = try sealer.seal(device.signalingKey, of: account)
    return PostgresStep(
      "link_device",
      """
      INSERT INTO devices (account, device, \(DeviceColumns.self))
      SELECT account, device, \(DeviceColumns.values(of: device, signalingKey: signalingKey))
      FROM linking_codes WHERE account = \(account) AND device IS NOT NULL
      """)
  }

  private static func spendStep(_ account: AccountNumber, triesMax: Int) -> PostgresStep {
    PostgresStep(
      "link_spend",
      """
      DELETE FROM linking_codes
      WHERE account = \(account) AND (device IS NOT NULL OR tries >= \(Int64(triesMax)))
      """)
  }
}
