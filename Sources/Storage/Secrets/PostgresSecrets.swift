package import RelayCore

extension PostgresStorage {
  package func serverSecret(_ name: String) async throws(StoreError) -> [UInt8]? {
    try Self.secret(in: await read([Self.secretStep(name)])[0])
  }

  package func serverSecret(_ name: String, orStore candidate: [UInt8]) async throws(StoreError) -> [UInt8] {
    let results = try await write([
      PostgresStep(
        "store_server_secret",
        "INSERT INTO server_secrets (name, secret) VALUES (\(name), \(candidate)) ON CONFLICT (name) DO NOTHING"),
      Self.secretStep(name),
    ])
    guard let secret = try Self.secret(in: results[1]) else {
      throw .corrupted(reason: "the table server_secrets lacks a row")
    }
    return secret
  }

  package func replaceServerSecret(_ name: String, _ former: [UInt8], with replacement: [UInt8])
    async throws(StoreError) -> Bool
  {
    let result = try await write(
      "replace_server_secret",
      "UPDATE server_secrets SET secret = \(replacement) WHERE name = \(name) AND secret = \(former)")
    return result.affectedRows == 1
  }

  package func serverKey(
    _ name: ServerKeyName, orStore draw: @Sendable () -> SecretBytes
  ) async throws(StoreError) -> SecretBytes {
    try await serverKey(name, sealer, orStore: draw)
  }

  private static func secretStep(_ name: String) -> PostgresStep {
    PostgresStep("server_secret", "SELECT secret FROM server_secrets WHERE name = \(name)")
  }

  /// - Parameter result: of `secretStep`.
  private static func secret(in result: PostgresResult) throws(StoreError) -> [UInt8]? {
    try result.first { (row) throws(StoreError) in try row.bytes() }
  }
}

// MARK: - Sealing anew

extension PostgresStorage {
  /// A device that is written meanwhile keeps what it was given.
  package func resealSecrets(after last: DeviceAddress?, limit: Int) async throws(StoreError) -> ResealedSecrets {
    if last == nil { try await resealServerKeys(sealer) }
    let page = try await readBulk(
      "sealed_secrets",
      """
      SELECT account, device, signaling_key FROM devices
      WHERE (account, device) > (\(last?.account.column ?? 0), \(last?.device.value ?? 0))
      ORDER BY account, device LIMIT \(Int64(limit))
      """)
    let secrets = try page.all(DeviceSecret.init(row:))
    let resealed = secrets.compactMap { secret in
      sealer.resealedIfIntact(secret.key, of: secret.device.account).map { Resealed(secret: secret, key: $0) }
    }
    return ResealedSecrets(count: try await store(resealed), last: secrets.last?.device)
  }

  private struct DeviceSecret {
    let device: DeviceAddress
    /// As it is stored.
    let key: [UInt8]

    init(row: inout PostgresRow) throws(StoreError) {
      device = DeviceAddress(try row.account(), try row.device())
      key = try row.bytes()
    }
  }

  private struct Resealed {
    let secret: DeviceSecret
    let key: [UInt8]
  }

  /// - Returns: how many were stored.
  private func store(_ resealed: [Resealed]) async throws(StoreError) -> Int {
    guard !resealed.isEmpty else { return 0 }
    let accounts = PostgresParameter(each: resealed.lazy.map(\.secret.device.account))
    let results = try await writeBulk([
      // In one order, as every change of a device: first its account's row.
      PostgresStep(
        "reseal_lock", "SELECT 1 FROM accounts WHERE account = ANY (\(accounts)) ORDER BY account FOR UPDATE"),
      PostgresStep(
        "reseal",
        """
        UPDATE devices AS d SET signaling_key = r.key
        FROM unnest(
          \(accounts), \(each: resealed.lazy.map(\.secret.device.device)),
          \(each: resealed.lazy.map(\.secret.key)), \(each: resealed.lazy.map(\.key))
        ) AS r (account, device, former, key)
        WHERE d.account = r.account AND d.device = r.device AND d.signaling_key = r.former
        """),
    ])
    return results.last?.affectedRows ?? 0
  }
}
