package import RelayCore

extension PostgresStorage {
  /// The identity key decides: the steps behind it do something only when the account's is the one that was brought.
  package func replacePreKeys(of device: DeviceAddress, with upload: PreKeyUpload) async throws(StoreError)
    -> PreKeyUploadOutcome
  {
    var steps = [
      Self.lockStep(device.account),
      Self.identityStep(device, upload.identityKey),
      Self.removeStep(device, upload.identityKey),
      Self.oneTimeStep(device, upload),
    ]
    if let key = upload.lastResort { steps.append(Self.lastResortStep(device, key, identity: upload.identityKey)) }
    if let key = upload.signedPreKey { steps.append(Self.signedStep(device, key, identity: upload.identityKey)) }
    let results = try await write(steps)
    guard let isAllowed = try results[1].first({ (row) throws(StoreError) in try row.boolean() }) else {
      return .noDevice
    }
    return isAllowed ? .stored : .identityRefused
  }

  package func setSignedPreKey(_ key: SignedPreKey, of device: DeviceAddress, identityKey: String)
    async throws(StoreError) -> Bool
  {
    let results = try await write([
      Self.lockStep(device.account), Self.signedStep(device, key, identity: identityKey),
    ])
    return results.last?.affectedRows == 1
  }

  package func signedPreKey(of device: DeviceAddress) async throws(StoreError) -> SignedPreKey? {
    let result = try await read(
      "signed_prekey",
      """
      SELECT signed_prekey_id, signed_prekey, signed_prekey_signature FROM devices
      WHERE account = \(device.account) AND device = \(device.device)
      """)
    return try result.first(SignedPreKey.init(optional:)) ?? nil
  }

  package func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int {
    let result = try await read(
      "prekey_count",
      "SELECT count(*) FROM one_time_prekeys WHERE account = \(device.account) AND device = \(device.device)")
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }
}

// MARK: - The steps of an upload

extension PostgresStorage {
  /// A change takes the signed prekeys away, which the former key signed.
  /// - Returns: in its row, if the device exists, whether the account's identity key is `key` now.
  private static func identityStep(_ device: DeviceAddress, _ key: String) -> PostgresStep {
    let account = PostgresParameter(device.account)
    let key = PostgresParameter(opaque: key)
    return PostgresStep(
      "replace_prekeys_identity",
      """
      WITH owner AS MATERIALIZED (
          SELECT a.identity_key, d.device = 1 OR a.identity_key IS NULL OR a.identity_key = \(key) AS is_allowed
          FROM accounts AS a JOIN devices AS d ON d.account = a.account
          WHERE a.account = \(account) AND d.device = \(device.device)
        ),
        changed AS (
          UPDATE accounts AS a SET identity_key = \(key)
          FROM owner AS o
          WHERE a.account = \(account) AND o.is_allowed AND o.identity_key IS DISTINCT FROM \(key)
        ),
        unsigned AS (
          UPDATE devices AS d SET signed_prekey_id = NULL, signed_prekey = NULL, signed_prekey_signature = NULL,
            has_signed_prekey = false
          FROM owner AS o
          WHERE d.account = \(account) AND o.is_allowed AND o.identity_key <> \(key)
        )
      SELECT is_allowed FROM owner
      """)
  }

  private static func removeStep(_ device: DeviceAddress, _ identityKey: String) -> PostgresStep {
    let account = PostgresParameter(device.account)
    return PostgresStep(
      "replace_prekeys_remove",
      """
      DELETE FROM one_time_prekeys AS k USING accounts AS a
      WHERE k.account = \(account) AND k.device = \(device.device) AND a.account = \(account)
        AND a.identity_key = \(opaque: identityKey)
      """)
  }

  private static func oneTimeStep(_ device: DeviceAddress, _ upload: PreKeyUpload) -> PostgresStep {
    // If two keys have one id the later wins, and one statement cannot insert both.
    let keys = Dictionary(upload.oneTimeKeys.map { ($0.keyID, $0.publicKey) }) { _, later in later }
    return PostgresStep(
      "replace_prekeys_one_time",
      """
      INSERT INTO one_time_prekeys (account, device, key_id, public_key)
      SELECT d.account, d.device, key.id, key.public_key
      FROM devices AS d JOIN accounts AS a ON a.account = d.account
      CROSS JOIN unnest(\(each: keys.keys), \(each: keys.values.map(PostgresOpaque.init))) AS key (id, public_key)
      WHERE d.account = \(device.account) AND d.device = \(device.device)
        AND a.identity_key = \(opaque: upload.identityKey)
      """)
  }

  private static func lastResortStep(_ device: DeviceAddress, _ key: PreKey, identity: String) -> PostgresStep {
    PostgresStep(
      "replace_prekeys_last_resort",
      """
      INSERT INTO last_resort_prekeys (account, device, key_id, public_key)
      SELECT d.account, d.device, \(key.keyID), \(opaque: key.publicKey)
      FROM devices AS d JOIN accounts AS a ON a.account = d.account
      WHERE d.account = \(device.account) AND d.device = \(device.device) AND a.identity_key = \(opaque: identity)
      ON CONFLICT (account, device) DO UPDATE SET key_id = excluded.key_id, public_key = excluded.public_key
      """)
  }

  private static func signedStep(_ device: DeviceAddress, _ key: SignedPreKey, identity: String) -> PostgresStep {
    let account = PostgresParameter(device.account)
    return PostgresStep(
      "replace_prekeys_signed",
      """
      UPDATE devices AS d SET signed_prekey_id = \(key.keyID), signed_prekey = \(opaque: key.publicKey),
        signed_prekey_signature = \(opaque: key.signature), has_signed_prekey = true
      FROM accounts AS a
      WHERE d.account = \(account) AND d.device = \(device.device) AND a.account = \(account)
        AND a.identity_key = \(opaque: identity)
      """)
  }
}

extension SignedPreKey {
  /// Three columns; nil when the first is NULL.
  init?(optional row: inout PostgresRow) throws(StoreError) {
    let (id, publicKey, signature) = (try row.optionalBigint(), row.optionalOpaque(), row.optionalOpaque())
    guard let id else { return nil }
    self.init(keyID: id, publicKey: try row.required(publicKey), signature: try row.required(signature))
  }
}
