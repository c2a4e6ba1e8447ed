import GRDB
package import RelayCore

extension SQLiteStorage {
  package func linkDevice(
    _ link: DeviceLink, code: Secret, triesMax: Int, now: Timestamp
  ) async throws(StoreError) -> LinkOutcome {
    let code = try await knownCodes.value(in: self).stored(code, .linking, of: link.account)
    // A device that a wrong clock calls inactive keeps its place, and what waits for it.
    let then = judge.time?.believed(now) ?? now
    return try await write { db in
      let number = link.account
      guard try Self.isPending(code, .linking, of: number, triesMax: triesMax, now: now, in: db),
        try db.row("SELECT 1 FROM accounts WHERE account = \(number)") != nil
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
    let (account, id) = (device.account, device.device)
    try db.run("DELETE FROM devices WHERE account = \(account) AND device = \(id)")
    let isKnown = db.changesCount > 0
    try db.run("DELETE FROM messages WHERE account = \(account) AND device = \(id)")
    try db.run("DELETE FROM acknowledged WHERE account = \(account) AND device = \(id)")
    return isKnown
  }
}

// MARK: - Changes

extension SQLiteStorage {
  package func updateDevice(_ device: DeviceAddress, _ change: DeviceChange) async throws(StoreError) -> Bool {
    try await write { db in
      guard try update(device, change, in: db) else { return false }
      try Self.changeListing(of: device.account, in: db) { try Self.update(device.account, change, in: db) }
      return true
    }
  }

  package func noteSeen(_ devices: [DeviceAddress], on day: Timestamp) async throws(StoreError) -> [DeviceAddress] {
    guard !devices.isEmpty else { return [] }
    return try await write { db in
      try devices.filter { device in
        try db.run(
          """
          UPDATE devices SET last_seen = \(day)
          WHERE account = \(device.account) AND device = \(device.device) AND last_seen < \(day)
          """)
        return db.changesCount == 1
      }
    }
  }

  /// - Returns: false when there is no such device.
  private func update(_ device: DeviceAddress, _ change: DeviceChange, in db: Database) throws -> Bool {
    let signalingKey = try change.signalingKey.new.map { try sealer.seal($0, of: device.account) }
    try db.run(
      """
      UPDATE devices SET \(pushIDsOf: change)
        push_registered = iif(\(change.pushRegistered.isSet), \(change.pushRegistered.new ?? nil), push_registered),
        fetches_messages = iif(\(change.fetchesMessages.isSet), \(change.fetchesMessages.new), fetches_messages),
        signaling_key = iif(\(change.signalingKey.isSet), \(signalingKey), signaling_key),
        registration_id = iif(\(change.registrationID.isSet), \(change.registrationID.new), registration_id),
        name = iif(\(change.name.isSet), \(opaque: change.name.new ?? nil), name),
        user_agent = iif(\(change.userAgent.isSet), \(opaque: change.userAgent.new ?? nil), user_agent),
        last_seen = iif(\(change.lastSeen.isSet), \(change.lastSeen.new), last_seen)
      WHERE account = \(device.account) AND device = \(device.device)
      """)
    return db.changesCount == 1
  }

  /// The account is active when device 1 is: the rule is `Device`'s.
  static func update(_ account: AccountNumber, _ change: DeviceChange, in db: Database) throws {
    let lock = change.registrationLock.new ?? nil
    try db.run(
      """
      UPDATE accounts SET supports_sms = iif(\(change.supportsSMS.isSet), \(change.supportsSMS.new), supports_sms),
        voice = iif(\(change.voice.isSet), \(change.voice.new), voice),
        discoverable = iif(\(change.isDiscoverable.isSet), \(change.isDiscoverable.new), discoverable),
        registration_lock_salt = iif(\(change.registrationLock.isSet), \(lock?.salt), registration_lock_salt),
        registration_lock_hash = iif(\(change.registrationLock.isSet), \(lock?.hash), registration_lock_hash),
        active = EXISTS (
          SELECT 1 FROM devices AS d WHERE d.account = accounts.account AND d.device = 1 AND \(isReachable: ()))
      WHERE account = \(account)
      """)
  }
}

// MARK: - Rows

extension SQLiteStorage {
  /// Ascending by id.
  func devices(of number: AccountNumber, in db: Database) throws -> [Device] {
    try db.rows(
      """
      SELECT device, \(DeviceColumns.self) FROM devices WHERE account = \(number) ORDER BY device
      """
    ).map { try Device(row: $0, of: number, sealer: sealer) }
  }

  func insert(_ device: Device, as id: DeviceID, of number: AccountNumber, in db: Database) throws {
    let signalingKey = try sealer.seal(device.signalingKey, of: number)
    try db.run(
      """
      INSERT INTO devices (account, device, \(DeviceColumns.self))
      VALUES (\(number), \(id), \(DeviceColumns.values(of: device, signalingKey: signalingKey)))
      """)
  }
}

extension Device {
  /// The device's id, and `DeviceColumns`.
  fileprivate init(row: Fields, of number: AccountNumber, sealer: SecretSealer) throws(StoreError) {
    var ids = PushIDs()
    for (index, kind) in PushIDKind.allCases.enumerated() { ids[kind] = row.optionalOpaque(6 + index).map(Secret.init) }
    let rest = 6 + PushIDKind.allCases.count
    self.init(
      id: try row.device(0), password: PasswordHash(salt: try row.bytes(1), hash: try row.bytes(2)),
      signalingKey: try sealer.open(row.bytes(3), of: number),
      registrationID: Int32(truncatingIfNeeded: try row.integer(4)), fetchesMessages: try row.flag(5), pushIDs: ids,
      pushRegistered: row.optionalTime(rest), name: row.optionalOpaque(rest + 1),
      userAgent: row.optionalOpaque(rest + 2), hasSignedPreKey: try row.flag(rest + 3),
      lastSeen: try row.time(rest + 4), created: try row.time(rest + 5))
  }
}
