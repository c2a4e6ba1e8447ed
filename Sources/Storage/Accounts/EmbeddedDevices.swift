import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func linkDevice(
    _ link: DeviceLink, code: Secret, triesMax: Int, now: Timestamp
  ) async throws(StoreError) -> LinkOutcome {
    let code = try await knownCodes.value(in: self).stored(code, .linking, of: link.account)
    // A device that a wrong clock calls inactive keeps its place, and what waits for it.
    let then = judge.time?.believed(now) ?? now
    return try await write { db in
      let number = link.account
      guard try Self.isPending(code, .linking, of: number, triesMax: triesMax, now: now, in: db),
        try db.row("SELECT 1 FROM accounts WHERE number = ?", [number.key]) != nil
      else { return .codeRefused }
      let devices = try devices(of: number, in: db)
      let active = devices.count { $0.isActive(at: then) }
      guard active < link.devicesMax else { return .tooManyDevices(current: active) }
      let replaced = devices.first { $0.id != .master && !$0.isActive(at: then) }?.id
      let highest = devices.last?.id ?? .master
      let id = try replaced ?? Fields.valid(DeviceID(Int64(highest.value) + 1))
      // Also where nobody is replaced: a message on its way may have come after its device was removed.
      try Self.remove(DeviceAddress(number, id), in: db)
      try Self.dropCode(.linking, of: number, in: db)
      try insert(link.device, as: id, of: number, in: db)
      return .linked(id)
    }
  }

  package func removeDevice(_ device: DeviceAddress) async throws(StoreError) -> Bool {
    guard device.device != .master else { return false }
    return try await write { db in try Self.remove(device, in: db) }
  }

  /// A device takes its prekeys with it, by their foreign keys.
  /// - Returns: false when there was no such device.
  @discardableResult
  private static func remove(_ device: DeviceAddress, in db: Database) throws -> Bool {
    let key: StatementArguments = [device.account.key, device.device.value]
    try db.run("DELETE FROM devices WHERE account = ? AND id = ?", key)
    let isKnown = db.changesCount > 0
    try db.run("DELETE FROM messages WHERE account = ? AND device = ?", key)
    try db.run("DELETE FROM acknowledged WHERE account = ? AND device = ?", key)
    return isKnown
  }
}

// MARK: - Changes

extension EmbeddedStorage {
  package func updateDevice(_ device: DeviceAddress, _ change: DeviceChange) async throws(StoreError) -> Bool {
    try await write { db in
      guard try update(device, change, in: db) else { return false }
      try Self.changeListing(of: device.account, in: db) { try Self.update(device.account, change, in: db) }
      return true
    }
  }

  /// - Returns: false when there is no such device.
  private func update(_ device: DeviceAddress, _ change: DeviceChange, in db: Database) throws -> Bool {
    // Apart: one expression of all would take the compiler too long.
    let ids =
      change.gcmID.columns { $0?.value.opaque } + change.apnID.columns { $0?.value.opaque }
      + change.voipApnID.columns { $0?.value.opaque } + change.webPushID.columns { $0?.value.opaque }
    try db.run(
      """
      UPDATE devices SET gcm_id = iif(?, ?, gcm_id), apn_id = iif(?, ?, apn_id), voip_apn_id = iif(?, ?, voip_apn_id),
        web_push = iif(?, ?, web_push),
        push_registered = iif(?, ?, push_registered), fetches_messages = iif(?, ?, fetches_messages),
        signaling_key = iif(?, ?, signaling_key), registration_id = iif(?, ?, registration_id),
        name = iif(?, ?, name), user_agent = iif(?, ?, user_agent), last_seen = iif(?, ?, last_seen)
      WHERE account = ? AND id = ?
      """,
      StatementArguments(
        ids + change.pushRegistered.columns { $0?.millis } + change.fetchesMessages.columns { $0 }
          + change.signalingKey.columns { try Data(sealer.seal($0, of: device.account)) }
          + change.registrationID.columns { $0 } + change.name.columns { $0?.opaque }
          + change.userAgent.columns { $0?.opaque } + change.lastSeen.columns { $0.millis }
          + [device.account.key, device.device.value]))
    return db.changesCount == 1
  }

  /// The account is active when device 1 is: the rule is `Device`'s.
  static func update(_ account: AccountNumber, _ change: DeviceChange, in db: Database) throws {
    try db.run(
      """
      UPDATE accounts SET supports_sms = iif(?, ?, supports_sms), voice = iif(?, ?, voice),
        discoverable = iif(?, ?, discoverable),
        registration_lock_salt = iif(?, ?, registration_lock_salt),
        registration_lock_hash = iif(?, ?, registration_lock_hash),
        active = EXISTS (
          SELECT 1 FROM devices AS d WHERE d.account = accounts.number AND d.id = 1
            AND (d.fetches_messages OR d.gcm_id IS NOT NULL OR d.apn_id IS NOT NULL OR d.web_push IS NOT NULL))
      WHERE number = ?
      """,
      StatementArguments(
        change.supportsSMS.columns { $0 } + change.voice.columns { $0 } + change.isDiscoverable.columns { $0 }
          + change.registrationLock.columns { $0.map { Data($0.salt) } }
          + change.registrationLock.columns { $0.map { Data($0.hash) } } + [account.key]))
  }
}

extension DeviceChange.Patch {
  /// The first two arguments of `iif(?, ?, column)`.
  fileprivate func columns(
    _ stored: (Value) throws -> (any DatabaseValueConvertible)?
  ) rethrows -> [(any DatabaseValueConvertible)?] {
    switch self {
    case .keep: [false, nil]
    case .set(let value): try [true, stored(value)]
    }
  }
}

// MARK: - Rows

extension EmbeddedStorage {
  /// Ascending by id.
  func devices(of number: AccountNumber, in db: Database) throws -> [Device] {
    try db.rows(
      """
      SELECT id, password_salt, password_hash, signaling_key, registration_id, fetches_messages, gcm_id, apn_id,
        voip_apn_id, push_registered, name, user_agent, has_signed_prekey, last_seen, created, web_push
      FROM devices WHERE account = ? ORDER BY id
      """, [number.key]
    ).map { row in
      try Device(
        id: row.device(0), password: PasswordHash(salt: row.bytes(1), hash: row.bytes(2)),
        signalingKey: sealer.open(row.bytes(3), of: number),
        registrationID: Int32(truncatingIfNeeded: row.integer(4)), fetchesMessages: row.flag(5),
        gcmID: row.optionalOpaque(6).map(Secret.init), apnID: row.optionalOpaque(7).map(Secret.init),
        voipApnID: row.optionalOpaque(8).map(Secret.init), webPushID: row.optionalOpaque(15).map(Secret.init),
        pushRegistered: row.optionalTime(9),
        name: row.optionalOpaque(10), userAgent: row.optionalOpaque(11), hasSignedPreKey: row.flag(12),
        lastSeen: row.time(13), created: row.time(14))
    }
  }

  func insert(_ device: Device, as id: DeviceID, of number: AccountNumber, in db: Database) throws {
    try db.run(
      """
      INSERT INTO devices (account, id, password_salt, password_hash, signaling_key, registration_id,
        fetches_messages, gcm_id, apn_id, voip_apn_id, push_registered, name, user_agent, has_signed_prekey,
        last_seen, created, web_push)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      [
        number.key, id.value, Data(device.password.salt), Data(device.password.hash),
        Data(sealer.seal(device.signalingKey, of: number)), device.registrationID, device.fetchesMessages,
        device.gcmID?.value.opaque, device.apnID?.value.opaque, device.voipApnID?.value.opaque,
        device.pushRegistered?.millis, device.name?.opaque, device.userAgent?.opaque, device.hasSignedPreKey,
        device.lastSeen.millis, device.created.millis, device.webPushID?.value.opaque,
      ])
  }
}
