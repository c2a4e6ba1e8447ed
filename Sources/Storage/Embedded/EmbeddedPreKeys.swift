import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func replacePreKeys(
    of device: DeviceAddress, with upload: PreKeyUpload
  ) async throws(StoreError) -> Bool {
    let (account, id) = (device.account.key, device.device.value)
    return try await write { db in
      guard try db.row("SELECT 1 FROM devices WHERE account = ? AND id = ?", [account, id]) != nil else {
        return false
      }
      try db.run("UPDATE accounts SET identity_key = ? WHERE number = ?", [upload.identityKey.opaque, account])
      try db.run("DELETE FROM prekeys WHERE account = ? AND device = ?", [account, id])
      for key in upload.oneTimeKeys {
        try db.run(
          "INSERT OR REPLACE INTO prekeys (account, device, key_id, public_key) VALUES (?, ?, ?, ?)",
          [account, id, key.keyID, key.publicKey.opaque])
      }
      try db.run(
        "INSERT OR REPLACE INTO last_resort_prekeys (account, device, key_id, public_key) VALUES (?, ?, ?, ?)",
        [account, id, upload.lastResort.keyID, upload.lastResort.publicKey.opaque])
      return true
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
    of account: AccountNumber, devices: [DeviceID]
  ) async throws(StoreError) -> [DrawnPreKey] {
    let wanted = Set(devices).sorted()
    guard !wanted.isEmpty else { return [] }
    return try await write { db in
      try wanted.compactMap { try Self.draw(from: account, device: $0, in: db) }
    }
  }

  /// The write lock is held: nobody else can read the key between its choice and its removal.
  private static func draw(from account: AccountNumber, device: DeviceID, in db: Database) throws -> DrawnPreKey? {
    let owner = try db.row(
      """
      SELECT d.registration_id, a.identity_key FROM devices AS d JOIN accounts AS a ON a.number = d.account
      WHERE d.account = ? AND d.id = ?
      """, [account.key, device.value])
    guard let owner, let identityKey = owner.optionalOpaque(1) else { return nil }
    let oneTime = try db.row(
      "SELECT key_id, public_key FROM prekeys WHERE account = ? AND device = ? ORDER BY key_id LIMIT 1",
      [account.key, device.value])
    if let oneTime {
      try db.run(
        "DELETE FROM prekeys WHERE account = ? AND device = ? AND key_id = ?",
        [account.key, device.value, oneTime.integer(0)])
    }
    let key =
      try oneTime
      ?? db.row(
        "SELECT key_id, public_key FROM last_resort_prekeys WHERE account = ? AND device = ?",
        [account.key, device.value])
    guard let key else { return nil }
    return try DrawnPreKey(
      device: device, registrationID: Int32(truncatingIfNeeded: owner.integer(0)), identityKey: identityKey,
      preKey: PreKey(keyID: key.integer(0), publicKey: key.opaque(1)))
  }
}
