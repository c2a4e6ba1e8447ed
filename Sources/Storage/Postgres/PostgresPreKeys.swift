package import RelayCore

extension PostgresStorage {
  package func replacePreKeys(of device: DeviceAddress, with upload: PreKeyUpload) async throws(StoreError) -> Bool {
    // Of two keys with one id the later wins, and one statement cannot insert both.
    let keys = Dictionary(upload.oneTimeKeys.map { ($0.keyID, $0.publicKey) }) { _, later in later }
    let owner = { (parameters: inout PostgresParameters) in
      parameters.add(account: device.account)
      parameters.add(device: device.device)
    }
    let results = try await write([
      // Holds the account's row to the end: uploads of one account take turns.
      PostgresStep(
        .prepared(
          "replace_prekeys_identity",
          """
          UPDATE accounts SET identity_key = $3::bytea
          WHERE account = $1::bigint
            AND EXISTS (SELECT FROM devices WHERE account = $1::bigint AND device = $2::integer)
          """),
        PostgresParameters {
          owner(&$0)
          $0.add(opaque: upload.identityKey)
        }),
      PostgresStep(
        .prepared(
          "replace_prekeys_remove",
          "DELETE FROM one_time_prekeys WHERE account = $1::bigint AND device = $2::integer"),
        PostgresParameters { owner(&$0) }),
      PostgresStep(
        .prepared(
          "replace_prekeys_one_time",
          """
          INSERT INTO one_time_prekeys (account, device, key_id, public_key)
          SELECT d.account, d.device, key.id, key.public_key
          FROM devices AS d CROSS JOIN unnest($3::bigint[], $4::bytea[]) AS key (id, public_key)
          WHERE d.account = $1::bigint AND d.device = $2::integer
          """),
        PostgresParameters {
          owner(&$0)
          $0.add(bigints: keys.keys)
          $0.add(byteas: keys.values.map { Array($0.utf8) })
        }),
      PostgresStep(
        .prepared(
          "replace_prekeys_last_resort",
          """
          INSERT INTO last_resort_prekeys (account, device, key_id, public_key)
          SELECT account, device, $3::bigint, $4::bytea FROM devices
          WHERE account = $1::bigint AND device = $2::integer
          ON CONFLICT (account, device) DO UPDATE SET key_id = excluded.key_id, public_key = excluded.public_key
          """),
        PostgresParameters {
          owner(&$0)
          $0.add(bigint: upload.lastResort.keyID)
          $0.add(opaque: upload.lastResort.publicKey)
        }),
    ])
    return results.first?.affectedRows == 1
  }

  package func preKeyCount(of device: DeviceAddress) async throws(StoreError) -> Int {
    let result = try await read(
      .prepared(
        "prekey_count",
        "SELECT count(*) FROM one_time_prekeys WHERE account = $1::bigint AND device = $2::integer"),
      PostgresParameters {
        $0.add(account: device.account)
        $0.add(device: device.device)
      })
    var row = result.cursor(row: 0)
    return Int(try row.bigint())
  }

  package func drawPreKeys(of account: AccountNumber, devices: [DeviceID]) async throws(StoreError) -> [DrawnPreKey] {
    guard !devices.isEmpty else { return [] }
    // A key that another draw holds is passed over, not waited for: the next one serves as well. `picked` is
    // materialised, so that it runs once: what it locks is what is deleted.
    let result = try await sharedWrite(
      .prepared(
        "draw_prekeys",
        """
        WITH wanted AS MATERIALIZED (
            SELECT d.device, d.registration_id, a.identity_key
            FROM devices AS d JOIN accounts AS a ON a.account = d.account
            WHERE d.account = $1::bigint AND d.device = ANY ($2::integer[]) AND a.identity_key IS NOT NULL
          ),
          picked AS MATERIALIZED (
            SELECT w.device, k.key_id
            FROM wanted AS w CROSS JOIN LATERAL (
              SELECT key_id FROM one_time_prekeys WHERE account = $1::bigint AND device = w.device
              ORDER BY key_id LIMIT 1 FOR UPDATE SKIP LOCKED
            ) AS k
          ),
          drawn AS (
            DELETE FROM one_time_prekeys AS k USING picked AS p
            WHERE k.account = $1::bigint AND k.device = p.device AND k.key_id = p.key_id
            RETURNING k.device, k.key_id, k.public_key
          )
        SELECT w.device, w.registration_id, w.identity_key,
          coalesce(o.key_id, l.key_id), coalesce(o.public_key, l.public_key)
        FROM wanted AS w
        LEFT JOIN drawn AS o ON o.device = w.device
        LEFT JOIN last_resort_prekeys AS l ON l.account = $1::bigint AND l.device = w.device
        WHERE o.device IS NOT NULL OR l.device IS NOT NULL
        ORDER BY w.device
        """),
      PostgresParameters {
        $0.add(account: account)
        $0.add(integers: devices.map(\.value))
      })
    var drawn: [DrawnPreKey] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      drawn.append(
        DrawnPreKey(
          device: try row.device(), registrationID: try row.integer(), identityKey: try row.opaque(),
          preKey: PreKey(keyID: try row.bigint(), publicKey: try row.opaque())))
    }
    return drawn
  }
}
