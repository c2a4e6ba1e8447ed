package import RelayCore

extension PostgresStorage {
  package func removeDevice(_ device: DeviceAddress) async throws(StoreError) -> Bool {
    guard device.device != .master else { return false }
    let results = try await write([
      Self.lockStep(device.account),
      PostgresStep(
        .prepared(
          "remove_device",
          """
          WITH removed AS (
              DELETE FROM devices WHERE account = $1::bigint AND device = $2::integer RETURNING 1
            ),
            queued AS (
              DELETE FROM messages
              WHERE account = $1::bigint AND device = $2::integer AND EXISTS (SELECT FROM removed)
            ),
            acknowledged AS (
              DELETE FROM acknowledged
              WHERE account = $1::bigint AND device = $2::integer AND EXISTS (SELECT FROM removed)
            ),
            one_time AS (
              DELETE FROM one_time_prekeys
              WHERE account = $1::bigint AND device = $2::integer AND EXISTS (SELECT FROM removed)
            ),
            last_resort AS (
              DELETE FROM last_resort_prekeys
              WHERE account = $1::bigint AND device = $2::integer AND EXISTS (SELECT FROM removed)
            )
          SELECT 1 FROM removed
          """),
        PostgresParameters {
          $0.add(account: device.account)
          $0.add(device: device.device)
        }),
    ])
    return results.last?.rowCount == 1
  }

  package func updateDevice(_ device: DeviceAddress, _ change: DeviceChange) async throws(StoreError) -> Bool {
    let results = try await write([
      Self.lockStep(device.account),
      try changeStep(device, change),
      Self.listStep(device, change),
    ])
    return results.dropFirst().first?.affectedRows == 1
  }
}

// MARK: - The steps of a change

extension PostgresStorage {
  private func changeStep(_ device: DeviceAddress, _ change: DeviceChange) throws(StoreError) -> PostgresStep {
    let signalingKey: DeviceChange.Patch<[UInt8]> =
      switch change.signalingKey {
      case .keep: .keep
      case .set(let key): .set(try sealer.seal(key, of: device.account))
      }
    return PostgresStep(
      .prepared(
        "update_device",
        """
        UPDATE devices
        SET gcm_id = CASE WHEN $3::boolean THEN $4::bytea ELSE gcm_id END,
          apn_id = CASE WHEN $5::boolean THEN $6::bytea ELSE apn_id END,
          voip_apn_id = CASE WHEN $7::boolean THEN $8::bytea ELSE voip_apn_id END,
          push_registered = CASE WHEN $9::boolean THEN $10::bigint ELSE push_registered END,
          fetches_messages = CASE WHEN $11::boolean THEN $12::boolean ELSE fetches_messages END,
          signaling_key = CASE WHEN $13::boolean THEN $14::bytea ELSE signaling_key END,
          registration_id = CASE WHEN $15::boolean THEN $16::integer ELSE registration_id END,
          name = CASE WHEN $17::boolean THEN $18::bytea ELSE name END,
          user_agent = CASE WHEN $19::boolean THEN $20::bytea ELSE user_agent END,
          last_seen = CASE WHEN $21::boolean THEN $22::bigint ELSE last_seen END,
          web_push = CASE WHEN $23::boolean THEN $24::bytea ELSE web_push END
        WHERE account = $1::bigint AND device = $2::integer
        """),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
        $0.add(change.gcmID) { $0.add(opaque: $1??.value) }
        $0.add(change.apnID) { $0.add(opaque: $1??.value) }
        $0.add(change.voipApnID) { $0.add(opaque: $1??.value) }
        $0.add(change.pushRegistered) { $0.add(bigint: $1??.millis) }
        $0.add(change.fetchesMessages) { $0.add(boolean: $1) }
        $0.add(signalingKey) { $0.add(bytea: $1) }
        $0.add(change.registrationID) { $0.add(integer: $1) }
        $0.add(change.name) { $0.add(opaque: $1 ?? nil) }
        $0.add(change.userAgent) { $0.add(opaque: $1 ?? nil) }
        $0.add(change.lastSeen) { $0.add(bigint: $1?.millis) }
        $0.add(change.webPushID) { $0.add(opaque: $1??.value) }
      })
  }

  /// Writes the account's row if something of it is other than before, and raises the revision if peers can see that.
  /// Whether device 1 makes the account active is `Account`'s rule.
  static func listStep(_ device: DeviceAddress, _ change: DeviceChange) -> PostgresStep {
    PostgresStep(
      .prepared(
        "update_account",
        """
        WITH changed AS (
          UPDATE accounts AS a
          SET active = n.active, supports_sms = n.supports_sms, voice = n.voice, discoverable = n.discoverable,
            registration_lock_salt = n.lock_salt, registration_lock_hash = n.lock_hash
          FROM (
            SELECT account, active AND discoverable AS was_found, supports_sms AS supported_sms, voice AS had_voice,
              EXISTS (
                SELECT FROM devices WHERE account = $1::bigint AND device = 1
                  AND (fetches_messages OR gcm_id IS NOT NULL OR apn_id IS NOT NULL OR web_push IS NOT NULL)) AS active,
              CASE WHEN $3::boolean THEN $4::boolean ELSE supports_sms END AS supports_sms,
              CASE WHEN $5::boolean THEN $6::boolean ELSE voice END AS voice,
              CASE WHEN $7::boolean THEN $8::bytea ELSE registration_lock_salt END AS lock_salt,
              CASE WHEN $7::boolean THEN $9::bytea ELSE registration_lock_hash END AS lock_hash,
              CASE WHEN $10::boolean THEN $11::boolean ELSE discoverable END AS discoverable
            FROM accounts
            WHERE account = $1::bigint
              AND EXISTS (SELECT FROM devices WHERE account = $1::bigint AND device = $2::integer)
          ) AS n
          WHERE a.account = $1::bigint AND a.account = n.account
            AND (a.active, a.supports_sms, a.voice, a.discoverable, a.registration_lock_salt, a.registration_lock_hash)
              IS DISTINCT FROM (n.active, n.supports_sms, n.voice, n.discoverable, n.lock_salt, n.lock_hash)
          RETURNING (n.was_found OR n.active AND n.discoverable)
            AND (n.was_found, n.supported_sms, n.had_voice)
              IS DISTINCT FROM (n.active AND n.discoverable, n.supports_sms, n.voice) AS is_visible
        )
        UPDATE revisions SET value = value + 1
        WHERE subject = 'accounts' AND EXISTS (SELECT FROM changed WHERE is_visible)
        """),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
        $0.add(change.supportsSMS) { $0.add(boolean: $1) }
        $0.add(change.voice) { $0.add(boolean: $1) }
        $0.add(change.registrationLock) { $0.add(password: $1 ?? nil) }
        $0.add(change.isDiscoverable) { $0.add(boolean: $1) }
      })
  }
}

extension PostgresParameters {
  /// Whether there is a new value, then what `addValue` adds of it, which gets nil when there is none.
  fileprivate mutating func add<Value>(
    _ patch: DeviceChange.Patch<Value>, _ addValue: (inout PostgresParameters, Value?) -> Void
  ) {
    switch patch {
    case .keep:
      add(boolean: false)
      addValue(&self, nil)
    case .set(let value):
      add(boolean: true)
      addValue(&self, value)
    }
  }
}
