package import RelayCore

extension PostgresStorage {
  package func removeDevice(_ device: DeviceAddress) async throws(StoreError) -> Bool {
    guard device.device != .master else { return false }
    let (account, id) = (PostgresParameter(device.account), PostgresParameter(device.device))
    let results = try await write([
      Self.lockStep(device.account),
      PostgresStep(
        "remove_device",
        """
        WITH removed AS (
            DELETE FROM devices WHERE account = \(account) AND device = \(id) RETURNING 1
          ),
          queued AS (
            DELETE FROM messages WHERE account = \(account) AND device = \(id) AND EXISTS (SELECT 1 FROM removed)
          ),
          acknowledged AS (
            DELETE FROM acknowledged WHERE account = \(account) AND device = \(id) AND EXISTS (SELECT 1 FROM removed)
          ),
          one_time AS (
            DELETE FROM one_time_prekeys
            WHERE account = \(account) AND device = \(id) AND EXISTS (SELECT 1 FROM removed)
          ),
          last_resort AS (
            DELETE FROM last_resort_prekeys
            WHERE account = \(account) AND device = \(id) AND EXISTS (SELECT 1 FROM removed)
          )
        SELECT 1 FROM removed
        """),
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

  package func noteSeen(_ devices: [DeviceAddress], on day: Timestamp) async throws(StoreError) -> [DeviceAddress] {
    guard !devices.isEmpty else { return [] }
    let day = PostgresParameter(day)
    // Changes of a device wait for its account's row, then for its own. This statement waits for neither, so it can
    // stand in no circle.
    let result = try await sharedWrite(
      "note_seen",
      """
      WITH seen AS MATERIALIZED (
        SELECT d.account, d.device
        FROM unnest(\(each: devices.lazy.map(\.account)), \(each: devices.lazy.map(\.device))) AS s (account, device)
        JOIN devices AS d ON d.account = s.account AND d.device = s.device
        WHERE d.last_seen < \(day)
        FOR NO KEY UPDATE OF d SKIP LOCKED
      )
      UPDATE devices AS d SET last_seen = \(day)
      FROM seen AS s WHERE d.account = s.account AND d.device = s.device
      RETURNING d.account, d.device
      """)
    return try result.all { (row) throws(StoreError) in DeviceAddress(try row.account(), try row.device()) }
  }
}

// MARK: - The steps of a change

extension PostgresStorage {
  private func changeStep(_ device: DeviceAddress, _ change: DeviceChange) throws(StoreError) -> PostgresStep {
    let signalingKey: [UInt8]? =
      if let key = change.signalingKey.new { try sealer.seal(key, of: device.account) } else { nil }
    return PostgresStep(
      "update_device",
      """
      UPDATE devices
      SET \(pushIDsOf: change)
        push_registered = CASE
          WHEN \(change.pushRegistered.isSet) THEN \(change.pushRegistered.new ?? nil) ELSE push_registered END,
        fetches_messages = CASE
          WHEN \(change.fetchesMessages.isSet) THEN \(change.fetchesMessages.new) ELSE fetches_messages END,
        signaling_key = CASE WHEN \(change.signalingKey.isSet) THEN \(signalingKey) ELSE signaling_key END,
        registration_id = CASE
          WHEN \(change.registrationID.isSet) THEN \(change.registrationID.new) ELSE registration_id END,
        name = CASE WHEN \(change.name.isSet) THEN \(opaque: change.name.new ?? nil) ELSE name END,
        user_agent = CASE
          WHEN \(change.userAgent.isSet) THEN \(opaque: change.userAgent.new ?? nil) ELSE user_agent END,
        last_seen = CASE WHEN \(change.lastSeen.isSet) THEN \(change.lastSeen.new) ELSE last_seen END
      WHERE account = \(device.account) AND device = \(device.device)
      """)
  }

  /// Writes the account's row if something of it is other than before, and raises the revision if peers can see that.
  /// Whether device 1 makes the account active is `Account`'s rule.
  static func listStep(_ device: DeviceAddress, _ change: DeviceChange) -> PostgresStep {
    let account = PostgresParameter(device.account)
    let setsLock = PostgresParameter(change.registrationLock.isSet)
    let lock = change.registrationLock.new ?? nil
    return PostgresStep(
      "update_account",
      """
      WITH changed AS (
        UPDATE accounts AS a
        SET active = n.active, supports_sms = n.supports_sms, voice = n.voice, discoverable = n.discoverable,
          registration_lock_salt = n.lock_salt, registration_lock_hash = n.lock_hash
        FROM (
          SELECT account, active AND discoverable AS was_found, supports_sms AS supported_sms, voice AS had_voice,
            EXISTS (
              SELECT FROM devices WHERE account = \(account) AND device = 1
                AND \(isReachable: ())) AS active,
            CASE WHEN \(change.supportsSMS.isSet) THEN \(change.supportsSMS.new) ELSE supports_sms END AS supports_sms,
            CASE WHEN \(change.voice.isSet) THEN \(change.voice.new) ELSE voice END AS voice,
            CASE WHEN \(setsLock) THEN \(lock?.salt) ELSE registration_lock_salt END AS lock_salt,
            CASE WHEN \(setsLock) THEN \(lock?.hash) ELSE registration_lock_hash END AS lock_hash,
            CASE
              WHEN \(change.isDiscoverable.isSet) THEN \(change.isDiscoverable.new) ELSE discoverable
            END AS discoverable
          FROM accounts
          WHERE account = \(account)
            AND EXISTS (SELECT FROM devices WHERE account = \(account) AND device = \(device.device))
        ) AS n
        WHERE a.account = \(account) AND a.account = n.account
          AND (a.active, a.supports_sms, a.voice, a.discoverable, a.registration_lock_salt, a.registration_lock_hash)
            IS DISTINCT FROM (n.active, n.supports_sms, n.voice, n.discoverable, n.lock_salt, n.lock_hash)
        RETURNING (n.was_found OR n.active AND n.discoverable)
          AND (n.was_found, n.supported_sms, n.had_voice)
            IS DISTINCT FROM (n.active AND n.discoverable, n.supports_sms, n.voice) AS is_visible
      )
      UPDATE revisions SET value = value + 1
      WHERE subject = 'accounts' AND EXISTS (SELECT FROM changed WHERE is_visible)
      """)
  }
}
