import GRDB
package import RelayCore

extension SQLiteStorage {
  package func serverSecret(_ name: String) async throws(StoreError) -> [UInt8]? {
    try await read { db in try Self.serverSecret(name, in: db) }
  }

  package func serverSecret(_ name: String, orStore candidate: [UInt8]) async throws(StoreError) -> [UInt8] {
    try await write { db in
      try db.run(
        "INSERT INTO server_secrets (name, secret) VALUES (\(name), \(candidate)) ON CONFLICT (name) DO NOTHING")
      return try Fields.valid(Self.serverSecret(name, in: db))
    }
  }

  package func replaceServerSecret(
    _ name: String, _ former: [UInt8], with replacement: [UInt8]
  ) async throws(StoreError) -> Bool {
    try await write { db in
      try db.run("UPDATE server_secrets SET secret = \(replacement) WHERE name = \(name) AND secret = \(former)")
      return db.changesCount == 1
    }
  }

  package func serverKey(
    _ name: ServerKeyName, orStore draw: @Sendable () -> SecretBytes
  ) async throws(StoreError) -> SecretBytes {
    try await serverKey(name, sealer, orStore: draw)
  }

  static func serverSecret(_ name: String, in db: Database) throws -> [UInt8]? {
    try db.row("SELECT secret FROM server_secrets WHERE name = \(name)")?.bytes(0)
  }
}

extension SQLiteStorage {
  package func resealSecrets(after last: DeviceAddress?, limit: Int) async throws(StoreError) -> ResealedSecrets {
    if last == nil { try await resealServerKeys(sealer) }
    return try await write { db in
      let devices = try db.rows(
        """
        SELECT account, device, signaling_key FROM devices
        WHERE (account, device) > (\(last?.account.key ?? 0), \(last?.device.value ?? 0))
        ORDER BY account, device LIMIT \(limit)
        """
      ).map { try (address: DeviceAddress($0.number(0), $0.device(1)), key: $0.bytes(2)) }
      var count = 0
      for (address, key) in devices {
        guard let resealed = sealer.resealedIfIntact(key, of: address.account) else { continue }
        try db.run(
          """
          UPDATE devices SET signaling_key = \(resealed) WHERE account = \(address.account) AND device = \(address.device)
          """)
        count += 1
      }
      return ResealedSecrets(count: count, last: devices.last?.address)
    }
  }
}
