import Foundation
import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func account(_ number: AccountNumber) async throws(StoreError) -> Account? {
    try await read { db in
      let found = try db.row("SELECT identity_key, supports_sms, voice FROM accounts WHERE number = ?", [number.key])
      guard let found else { return nil }
      let devices = try db.rows(Self.devicesQuery, [number.key]).map(Self.device)
      return try Account(
        number: number, devices: devices, identityKey: found.optionalOpaque(0), supportsSMS: found.flag(1),
        voice: found.flag(2))
    }
  }

  package func setVerificationCode(_ code: VerificationCode, for number: AccountNumber) async throws(StoreError) {
    try await write { db in
      try db.run(
        "INSERT OR REPLACE INTO verification_codes (account, code, expires, tries) VALUES (?, ?, ?, 0)",
        [number.key, code.code.value.opaque, code.expires.millis])
    }
  }

  package func register(
    _ registration: Registration, code: Secret, triesMax: Int, now: Timestamp
  ) async throws(StoreError) -> RegistrationOutcome {
    try await write { db in
      let number = registration.number
      guard try Self.isPending(code, of: number, triesMax: triesMax, now: now, in: db) else { return .codeRefused }
      guard try !Self.isElsewhere(registration, in: db) else { return .numberElsewhere }
      try db.run("DELETE FROM verification_codes WHERE account = ?", [number.key])
      try Self.removeInstallation(of: number, in: db)
      try Self.list(registration, isActive: registration.isActive(at: now), in: db)
      try Self.insert(registration.device, of: number, in: db)
      return .registered
    }
  }

  /// Whether `code` is the pending one of `number`; if not, that was a try.
  private static func isPending(
    _ code: Secret, of number: AccountNumber, triesMax: Int, now: Timestamp, in db: Database
  ) throws -> Bool {
    let pending = try db.row("SELECT code, expires, tries FROM verification_codes WHERE account = ?", [number.key])
    guard let pending, try pending.time(1) > now else { return false }
    if try constantTimeEquals(pending.bytes(0), Array(code.value.utf8)) { return true }
    if try pending.integer(2) + 1 >= Int64(triesMax) {
      try db.run("DELETE FROM verification_codes WHERE account = ?", [number.key])
    } else {
      try db.run("UPDATE verification_codes SET tries = tries + 1 WHERE account = ?", [number.key])
    }
    return false
  }

  /// Whether an active peer lists the number while we have no account of it.
  private static func isElsewhere(_ registration: Registration, in db: Database) throws -> Bool {
    guard try db.row("SELECT 1 FROM accounts WHERE number = ?", [registration.number.key]) == nil else { return false }
    return try db.row(
      "SELECT 1 FROM contacts AS c JOIN peers AS p ON p.name = c.peer WHERE c.token = ? AND p.state = 'active' LIMIT 1",
      [registration.token.data]) != nil
  }

  /// Devices take their prekeys with them. A new installation begins with empty mailboxes that remember nothing.
  private static func removeInstallation(of number: AccountNumber, in db: Database) throws {
    try db.run("DELETE FROM devices WHERE account = ?", [number.key])
    try db.run("DELETE FROM messages WHERE account = ?", [number.key])
    try db.run("DELETE FROM acknowledged WHERE account = ?", [number.key])
  }

  /// Writes the account's row, and raises the revision when peers have something new to read in it.
  private static func list(_ registration: Registration, isActive: Bool, in db: Database) throws {
    let key = registration.number.key
    let listed = try db.row("SELECT token, active, supports_sms, voice FROM accounts WHERE number = ?", [key])
    try db.run(
      """
      INSERT INTO accounts (number, token, active, supports_sms, voice, identity_key) VALUES (?, ?, ?, ?, ?, NULL)
      ON CONFLICT (number) DO UPDATE SET token = excluded.token, active = excluded.active,
        supports_sms = excluded.supports_sms, voice = excluded.voice, identity_key = NULL
      """,
      [key, registration.token.data, isActive, registration.supportsSMS, registration.voice])
    let isUnchanged =
      if let listed {
        try listed.token(0) == registration.token && listed.flag(1) == isActive
          && listed.flag(2) == registration.supportsSMS && listed.flag(3) == registration.voice
      } else { false }
    if !isUnchanged { try db.raise(.accounts) }
  }

  private static func insert(_ device: Device, of number: AccountNumber, in db: Database) throws {
    try db.run(
      """
      INSERT INTO devices (account, id, password_salt, password_hash, signaling_key, registration_id,
        fetches_messages, gcm_id, apn_id, voip_apn_id, name, user_agent, has_signed_prekey, last_seen, created)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      [
        number.key, device.id.value, Data(device.password.salt), Data(device.password.hash),
        device.signalingKey.value.opaque,
        device.registrationID, device.fetchesMessages, device.gcmID?.value.opaque, device.apnID?.value.opaque,
        device.voipApnID?.value.opaque, device.name?.opaque, device.userAgent?.opaque, device.hasSignedPreKey,
        device.lastSeen.millis,
        device.created.millis,
      ])
  }

  private static let devicesQuery = """
    SELECT id, password_salt, password_hash, signaling_key, registration_id, fetches_messages, gcm_id, apn_id,
      voip_apn_id, name, user_agent, has_signed_prekey, last_seen, created
    FROM devices WHERE account = ? ORDER BY id
    """

  private static func device(_ row: Fields) throws -> Device {
    try Device(
      id: row.device(0), password: PasswordHash(salt: row.bytes(1), hash: row.bytes(2)),
      signalingKey: Secret(row.opaque(3)), registrationID: Int32(truncatingIfNeeded: row.integer(4)),
      fetchesMessages: row.flag(5), gcmID: row.optionalOpaque(6).map(Secret.init),
      apnID: row.optionalOpaque(7).map(Secret.init), voipApnID: row.optionalOpaque(8).map(Secret.init),
      name: row.optionalOpaque(9), userAgent: row.optionalOpaque(10), hasSignedPreKey: row.flag(11),
      lastSeen: row.time(12), created: row.time(13))
  }
}

extension Registration {
  /// Whether the directory lists the account afterwards: the rule is `Account`'s.
  fileprivate func isActive(at now: Timestamp) -> Bool {
    Account(number: number, devices: [device], identityKey: nil, supportsSMS: supportsSMS, voice: voice)
      .isActive(at: now)
  }
}
