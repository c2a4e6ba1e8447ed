package import RelayCore

extension PostgresStorage {
  package func serverSecret(_ name: String) async throws(StoreError) -> [UInt8]? {
    let found = try await read(Self.serverSecret, PostgresParameters { $0.add(text: name) })
    guard found.rowCount == 1 else { return nil }
    var row = found.cursor(row: 0)
    return try row.bytes()
  }

  package func serverSecret(_ name: String, orStore candidate: [UInt8]) async throws(StoreError) -> [UInt8] {
    let results = try await write([
      PostgresStep(
        .prepared(
          "store_server_secret",
          "INSERT INTO server_secrets (name, secret) VALUES ($1::text, $2::bytea) ON CONFLICT (name) DO NOTHING"),
        PostgresParameters {
          $0.add(text: name)
          $0.add(bytea: candidate)
        }),
      PostgresStep(Self.serverSecret, PostgresParameters { $0.add(text: name) }),
    ])
    guard let found = results.last, found.rowCount == 1 else {
      throw .corrupted(reason: "the table server_secrets lacks a row")
    }
    var row = found.cursor(row: 0)
    return try row.bytes()
  }

  package func replaceServerSecret(_ name: String, _ former: [UInt8], with replacement: [UInt8])
    async throws(StoreError) -> Bool
  {
    let result = try await write(
      .prepared(
        "replace_server_secret",
        "UPDATE server_secrets SET secret = $3::bytea WHERE name = $1::text AND secret = $2::bytea"),
      PostgresParameters {
        $0.add(text: name)
        $0.add(bytea: former)
        $0.add(bytea: replacement)
      })
    return result.affectedRows == 1
  }

  package func serverKey(
    _ name: ServerKeyName, orStore draw: @Sendable () -> SecretBytes
  ) async throws(StoreError) -> SecretBytes {
    try await serverKey(name, sealer, orStore: draw)
  }

  private static let serverSecret = PostgresStatement.prepared(
    "server_secret", "SELECT secret FROM server_secrets WHERE name = $1::text")
}

// MARK: - Sealing anew

extension PostgresStorage {
  /// A device that is written meanwhile keeps what it was given.
  package func resealSecrets(after last: DeviceAddress?, limit: Int) async throws(StoreError) -> ResealedSecrets {
    if last == nil { try await resealServerKeys(sealer) }
    let page = try await readBulk(
      .prepared(
        "sealed_secrets",
        """
        SELECT account, device, signaling_key FROM devices WHERE (account, device) > ($1::bigint, $2::integer)
        ORDER BY account, device LIMIT $3::bigint
        """),
      PostgresParameters {
        $0.add(bigint: last?.account.column ?? 0)
        $0.add(integer: last?.device.value ?? 0)
        $0.add(bigint: Int64(limit))
      })
    var resealed: [Resealed] = []
    var reached: DeviceAddress?
    for index in page.rows {
      var row = page.cursor(row: index)
      let device = DeviceAddress(try row.account(), try row.device())
      let former = try row.bytes()
      reached = device
      guard let key = sealer.resealedIfIntact(former, of: device.account) else { continue }
      resealed.append(Resealed(device: device, former: former, key: key))
    }
    return ResealedSecrets(count: try await store(resealed), last: reached)
  }

  private struct Resealed {
    let device: DeviceAddress
    let former: [UInt8]
    let key: [UInt8]
  }

  /// - Returns: how many were stored.
  private func store(_ resealed: [Resealed]) async throws(StoreError) -> Int {
    guard !resealed.isEmpty else { return 0 }
    let results = try await writeBulk([
      // In one order, as every change of a device: first its account's row.
      PostgresStep(
        .prepared(
          "reseal_lock", "SELECT 1 FROM accounts WHERE account = ANY ($1::bigint[]) ORDER BY account FOR UPDATE"),
        PostgresParameters { $0.add(bigints: resealed.map(\.device.account.column)) }),
      PostgresStep(
        .prepared(
          "reseal",
          """
          UPDATE devices AS d SET signaling_key = r.key
          FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::bytea[]) AS r (account, device, former, key)
          WHERE d.account = r.account AND d.device = r.device AND d.signaling_key = r.former
          """),
        PostgresParameters {
          $0.add(bigints: resealed.map(\.device.account.column))
          $0.add(integers: resealed.map(\.device.device.value))
          $0.add(byteas: resealed.map(\.former))
          $0.add(byteas: resealed.map(\.key))
        }),
    ])
    return results.last?.affectedRows ?? 0
  }
}
