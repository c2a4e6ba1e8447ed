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
    guard let decision = results.dropFirst().first, decision.rowCount == 1 else { return .noDevice }
    var row = decision.cursor(row: 0)
    return try row.boolean() ? .stored : .identityRefused
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
      .prepared(
        "signed_prekey",
        """
        SELECT signed_prekey_id, signed_prekey, signed_prekey_signature FROM devices
        WHERE account = $1::bigint AND device = $2::integer
        """), PostgresParameters { $0.add(device) })
    guard result.rowCount == 1 else { return nil }
    var row = result.cursor(row: 0)
    return try row.optionalSignedPreKey()
  }

  package func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int {
    let result = try await read(
      .prepared(
        "prekey_count",
        "SELECT count(*) FROM one_time_prekeys WHERE account = $1::bigint AND device = $2::integer"),
      PostgresParameters { $0.add(device) })
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }
}

// MARK: - The steps of an upload

extension PostgresStorage {
  /// A change takes the signed prekeys away, which the former key signed.
  /// - Returns: in its row, if the device exists, whether the account's identity key is `key` now.
  private static func identityStep(_ device: DeviceAddress, _ key: String) -> PostgresStep {
    PostgresStep(
      .prepared(
        "replace_prekeys_identity",
        """
        WITH owner AS MATERIALIZED (
            SELECT a.identity_key, d.device = 1 OR a.identity_key IS NULL OR a.identity_key = $3::bytea AS is_allowed
            FROM accounts AS a JOIN devices AS d ON d.account = a.account
            WHERE a.account = $1::bigint AND d.device = $2::integer
          ),
          changed AS (
            UPDATE accounts AS a SET identity_key = $3::bytea
            FROM owner AS o
            WHERE a.account = $1::bigint AND o.is_allowed AND o.identity_key IS DISTINCT FROM $3::bytea
          ),
          unsigned AS (
            UPDATE devices AS d SET signed_prekey_id = NULL, signed_prekey = NULL, signed_prekey_signature = NULL,
              has_signed_prekey = false
            FROM owner AS o
            WHERE d.account = $1::bigint AND o.is_allowed AND o.identity_key <> $3::bytea
          )
        SELECT is_allowed FROM owner
        """),
      PostgresParameters {
        $0.add(device)
        $0.add(opaque: key)
      })
  }

  private static func removeStep(_ device: DeviceAddress, _ identityKey: String) -> PostgresStep {
    PostgresStep(
      .prepared(
        "replace_prekeys_remove",
        """
        DELETE FROM one_time_prekeys AS k USING accounts AS a
        WHERE k.account = $1::bigint AND k.device = $2::integer AND a.account = $1::bigint
          AND a.identity_key = $3::bytea
        """),
      PostgresParameters {
        $0.add(device)
        $0.add(opaque: identityKey)
      })
  }

  private static func oneTimeStep(_ device: DeviceAddress, _ upload: PreKeyUpload) -> PostgresStep {
    // Of two keys with one id the later wins, and one statement cannot insert both.
    let keys = Dictionary(upload.oneTimeKeys.map { ($0.keyID, $0.publicKey) }) { _, later in later }
    return PostgresStep(
      .prepared(
        "replace_prekeys_one_time",
        """
        INSERT INTO one_time_prekeys (account, device, key_id, public_key)
        SELECT d.account, d.device, key.id, key.public_key
        FROM devices AS d JOIN accounts AS a ON a.account = d.account
        CROSS JOIN unnest($4::bigint[], $5::bytea[]) AS key (id, public_key)
        WHERE d.account = $1::bigint AND d.device = $2::integer AND a.identity_key = $3::bytea
        """),
      PostgresParameters {
        $0.add(device)
        $0.add(opaque: upload.identityKey)
        $0.add(bigints: keys.keys)
        $0.add(byteas: keys.values.map { Array($0.utf8) })
      })
  }

  private static func lastResortStep(_ device: DeviceAddress, _ key: PreKey, identity: String) -> PostgresStep {
    PostgresStep(
      .prepared(
        "replace_prekeys_last_resort",
        """
        INSERT INTO last_resort_prekeys (account, device, key_id, public_key)
        SELECT d.account, d.device, $4::bigint, $5::bytea
        FROM devices AS d JOIN accounts AS a ON a.account = d.account
        WHERE d.account = $1::bigint AND d.device = $2::integer AND a.identity_key = $3::bytea
        ON CONFLICT (account, device) DO UPDATE SET key_id = excluded.key_id, public_key = excluded.public_key
        """),
      PostgresParameters {
        $0.add(device)
        $0.add(opaque: identity)
        $0.add(bigint: key.keyID)
        $0.add(opaque: key.publicKey)
      })
  }

  private static func signedStep(_ device: DeviceAddress, _ key: SignedPreKey, identity: String) -> PostgresStep {
    PostgresStep(
      .prepared(
        "replace_prekeys_signed",
        """
        UPDATE devices AS d SET signed_prekey_id = $4::bigint, signed_prekey = $5::bytea,
          signed_prekey_signature = $6::bytea, has_signed_prekey = true
        FROM accounts AS a
        WHERE d.account = $1::bigint AND d.device = $2::integer AND a.account = $1::bigint
          AND a.identity_key = $3::bytea
        """),
      PostgresParameters {
        $0.add(device)
        $0.add(opaque: identity)
        $0.add(key)
      })
  }
}

extension PostgresParameters {
  /// Two values: account and device.
  fileprivate mutating func add(_ device: DeviceAddress) {
    add(account: device.account)
    add(device: device.device)
  }

  /// Three values.
  fileprivate mutating func add(_ key: SignedPreKey) {
    add(bigint: key.keyID)
    add(opaque: key.publicKey)
    add(opaque: key.signature)
  }
}

extension PostgresRow {
  /// Three columns; nil when the first is NULL.
  mutating func optionalSignedPreKey() throws(StoreError) -> SignedPreKey? {
    let (id, publicKey, signature) = (try optionalBigint(), optionalOpaque(), optionalOpaque())
    guard let id else { return nil }
    return SignedPreKey(keyID: id, publicKey: try required(publicKey), signature: try required(signature))
  }
}
