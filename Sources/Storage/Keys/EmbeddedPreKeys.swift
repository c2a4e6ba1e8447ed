import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func replacePreKeys(
    of device: DeviceAddress, with upload: PreKeyUpload
  ) async throws(StoreError) -> PreKeyUploadOutcome {
    let (account, id) = (device.account.key, device.device.value)
    return try await write { db in
      let owner = try db.row(
        "SELECT a.identity_key FROM devices AS d JOIN accounts AS a ON a.number = d.account"
          + " WHERE d.account = ? AND d.id = ?", [account, id])
      guard let owner else { return .noDevice }
      let identity = owner.optionalOpaque(0)
      guard device.device == .master || identity == nil || identity == upload.identityKey else {
        return .identityRefused
      }
      if let identity, identity != upload.identityKey { try Self.removeSignedPreKeys(of: device.account, in: db) }
      try db.run("UPDATE accounts SET identity_key = ? WHERE number = ?", [upload.identityKey.opaque, account])
      try db.run("DELETE FROM prekeys WHERE account = ? AND device = ?", [account, id])
      for key in upload.oneTimeKeys {
        try db.run(
          "INSERT OR REPLACE INTO prekeys (account, device, key_id, public_key) VALUES (?, ?, ?, ?)",
          [account, id, key.keyID, key.publicKey.opaque])
      }
      if let lastResort = upload.lastResort {
        try db.run(
          "INSERT OR REPLACE INTO last_resort_prekeys (account, device, key_id, public_key) VALUES (?, ?, ?, ?)",
          [account, id, lastResort.keyID, lastResort.publicKey.opaque])
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
        "SELECT signed_prekey_id, signed_prekey, signed_prekey_signature FROM devices WHERE account = ? AND id = ?",
        [device.account.key, device.device.value]
      ).flatMap { try Self.signedPreKey($0, at: 0) }
    }
  }

  package func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int {
    try await read { db in
      let count = try db.row(
        "SELECT count(*) FROM prekeys WHERE account = ? AND device = ?", [device.account.key, device.device.value])
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
    let key: StatementArguments = [device.account.key, device.device.value]
    let owner = try db.row(
      """
      SELECT d.registration_id, a.identity_key, d.signed_prekey_id, d.signed_prekey, d.signed_prekey_signature
      FROM devices AS d JOIN accounts AS a ON a.number = d.account
      WHERE d.account = ? AND d.id = ?
      """, key)
    guard let owner, let identityKey = owner.optionalOpaque(1) else { return nil }
    let preKey =
      try (takesOneTime ? takeOneTime(of: device, in: db) : nil)
      ?? db.row("SELECT key_id, public_key FROM last_resort_prekeys WHERE account = ? AND device = ?", key)
      .map { try PreKey(keyID: $0.integer(0), publicKey: $0.opaque(1)) }
    let signed = try signedPreKey(owner, at: 2)
    guard preKey != nil || signed != nil else { return nil }
    return try DrawnPreKey(
      device: device.device, registrationID: Int32(truncatingIfNeeded: owner.integer(0)), identityKey: identityKey,
      preKey: preKey, signedPreKey: signed)
  }

  /// The write lock is held: nobody else can read the key between its choice and its removal.
  private static func takeOneTime(of device: DeviceAddress, in db: Database) throws -> PreKey? {
    let (account, id) = (device.account.key, device.device.value)
    let first = try db.row(
      "SELECT key_id, public_key FROM prekeys WHERE account = ? AND device = ? ORDER BY key_id LIMIT 1",
      [account, id])
    guard let first else { return nil }
    let key = try PreKey(keyID: first.integer(0), publicKey: first.opaque(1))
    try db.run("DELETE FROM prekeys WHERE account = ? AND device = ? AND key_id = ?", [account, id, key.keyID])
    return key
  }

  /// - Returns: false when the device does not exist, or its account has another identity key.
  @discardableResult
  private static func store(
    _ key: SignedPreKey, of device: DeviceAddress, identityKey: String, in db: Database
  ) throws -> Bool {
    try db.run(
      """
      UPDATE devices SET signed_prekey_id = ?, signed_prekey = ?, signed_prekey_signature = ?, has_signed_prekey = 1
      WHERE account = ? AND id = ?
        AND EXISTS (SELECT 1 FROM accounts AS a WHERE a.number = devices.account AND a.identity_key = ?)
      """,
      [
        key.keyID, key.publicKey.opaque, key.signature.opaque, device.account.key, device.device.value,
        identityKey.opaque,
      ])
    return db.changesCount == 1
  }

  /// Those that a former identity key signed.
  private static func removeSignedPreKeys(of account: AccountNumber, in db: Database) throws {
    try db.run(
      """
      UPDATE devices SET signed_prekey_id = NULL, signed_prekey = NULL, signed_prekey_signature = NULL,
        has_signed_prekey = 0
      WHERE account = ?
      """, [account.key])
  }

  /// - Parameter index: of the id; the key and its signature follow.
  private static func signedPreKey(_ row: Fields, at index: Int) throws -> SignedPreKey? {
    guard let keyID = row.optionalInteger(index) else { return nil }
    return try SignedPreKey(keyID: keyID, publicKey: row.opaque(index + 1), signature: row.opaque(index + 2))
  }
}
