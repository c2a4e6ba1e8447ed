import GRDB
package import RelayCore

extension SQLiteStorage {
  package func replacePreKeys(
    of device: DeviceAddress, with upload: PreKeyUpload
  ) async throws(StoreError) -> PreKeyUploadOutcome {
    let (account, id) = (device.account, device.device)
    return try await write { db in
      let owner = try db.row(
        """
        SELECT a.identity_key FROM devices AS d JOIN accounts AS a ON a.account = d.account
        WHERE d.account = \(account) AND d.device = \(id)
        """)
      guard let owner else { return .noDevice }
      let identity = owner.optionalOpaque(0)
      guard device.device == .master || identity == nil || identity == upload.identityKey else {
        return .identityRefused
      }
      if let identity, identity != upload.identityKey { try Self.removeSignedPreKeys(of: device.account, in: db) }
      try db.run("UPDATE accounts SET identity_key = \(opaque: upload.identityKey) WHERE account = \(account)")
      try db.run("DELETE FROM one_time_prekeys WHERE account = \(account) AND device = \(id)")
      for key in upload.oneTimeKeys {
        try db.run(
          """
          INSERT OR REPLACE INTO one_time_prekeys (account, device, key_id, public_key)
          VALUES (\(account), \(id), \(key.keyID), \(opaque: key.publicKey))
          """)
      }
      if let key = upload.lastResort {
        try db.run(
          """
          INSERT OR REPLACE INTO last_resort_prekeys (account, device, key_id, public_key)
          VALUES (\(account), \(id), \(key.keyID), \(opaque: key.publicKey))
          """)
      }
      if let signed = upload.signedPreKey {
        try Self.store(signed, of: device, identityKey: upload.identityKey, in: db)
      }
      return .stored
    }
  }

  package func setSignedPreKey(
    _ key: SignedPreKey, of device: DeviceAddress, identityKey: String
  ) async throws(StoreError) -> Bool {
    try await write { db in try Self.store(key, of: device, identityKey: identityKey, in: db) }
  }

  package func signedPreKey(of device: DeviceAddress) async throws(StoreError) -> SignedPreKey? {
    try await read { db in
      try db.row(
        """
        SELECT signed_prekey_id, signed_prekey, signed_prekey_signature FROM devices
        WHERE account = \(device.account) AND device = \(device.device)
        """
      ).flatMap { try SignedPreKey(optional: $0, at: 0) }
    }
  }

  package func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int {
    try await read { db in
      let count = try db.row(
        "SELECT count(*) FROM one_time_prekeys WHERE account = \(device.account) AND device = \(device.device)")
      return try Int(Fields.valid(count).integer(0))
    }
  }

  package func drawPreKeys(
    of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64
  ) async throws(StoreError) -> [DrawnPreKey] {
    let wanted = Set(devices).sorted()
    guard !wanted.isEmpty else { return [] }
    return try await write { db in
      let oneTime = try Self.epoch(in: db) >= epoch ? oneTime : []
      return try wanted.compactMap { id in
        try Self.draw(from: DeviceAddress(account, id), takesOneTime: oneTime.contains(id), in: db)
      }
    }
  }

  private static func draw(
    from device: DeviceAddress, takesOneTime: Bool, in db: Database
  ) throws -> DrawnPreKey? {
    let owner = try db.row(
      """
      SELECT d.registration_id, a.identity_key, d.signed_prekey_id, d.signed_prekey, d.signed_prekey_signature
      FROM devices AS d JOIN accounts AS a ON a.account = d.account
      WHERE d.account = \(device.account) AND d.device = \(device.device)
      """)
    guard let owner, let identityKey = owner.optionalOpaque(1) else { return nil }
    let preKey =
      try (takesOneTime ? takeOneTime(of: device, in: db) : nil)
      ?? db.row(
        """
        SELECT key_id, public_key FROM last_resort_prekeys
        WHERE account = \(device.account) AND device = \(device.device)
        """
      ).map(PreKey.init(row:))
    let signed = try SignedPreKey(optional: owner, at: 2)
    guard preKey != nil || signed != nil else { return nil }
    return try DrawnPreKey(
      device: device.device, registrationID: Int32(truncatingIfNeeded: owner.integer(0)), identityKey: identityKey,
      preKey: preKey, signedPreKey: signed)
  }

  /// The write lock is held: nobody else can read the key between its choice and its removal.
  private static func takeOneTime(of device: DeviceAddress, in db: Database) throws -> PreKey? {
    let (account, id) = (device.account, device.device)
    let first = try db.row(
      """
      SELECT key_id, public_key FROM one_time_prekeys WHERE account = \(account) AND device = \(id)
      ORDER BY key_id LIMIT 1
      """)
    guard let key = try first.map(PreKey.init(row:)) else { return nil }
    try db.run("DELETE FROM one_time_prekeys WHERE account = \(account) AND device = \(id) AND key_id = \(key.keyID)")
    return key
  }

  /// - Returns: false when the device does not exist, or its account has another identity key.
  @discardableResult
  private static func store(
    _ key: SignedPreKey, of device: DeviceAddress, identityKey: String, in db: Database
  ) throws -> Bool {
    try db.run(
      """
      UPDATE devices SET signed_prekey_id = \(key.keyID), signed_prekey = \(opaque: key.publicKey),
        signed_prekey_signature = \(opaque: key.signature), has_signed_prekey = 1
      WHERE account = \(device.account) AND device = \(device.device)
        AND EXISTS (
          SELECT 1 FROM accounts AS a WHERE a.account = devices.account AND a.identity_key = \(opaque: identityKey))
      """)
    return db.changesCount == 1
  }

  /// Removes the signed prekeys that a former identity key signed.
  private static func removeSignedPreKeys(of account: AccountNumber, in db: Database) throws {
    try db.run(
      """
      UPDATE devices SET signed_prekey_id = NULL, signed_prekey = NULL, signed_prekey_signature = NULL,
        has_signed_prekey = 0
      WHERE account = \(account)
      """)
  }
}

extension PreKey {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(keyID: try row.integer(0), publicKey: try row.opaque(1))
  }
}

extension SignedPreKey {
  /// nil where its id is NULL.
  /// - Parameter index: of the id; the key and its signature follow.
  fileprivate init?(optional row: Fields, at index: Int) throws(StoreError) {
    guard let keyID = row.optionalInteger(index) else { return nil }
    self.init(keyID: keyID, publicKey: try row.opaque(index + 1), signature: try row.opaque(index + 2))
  }
}
