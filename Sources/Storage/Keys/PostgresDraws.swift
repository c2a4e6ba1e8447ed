package import RelayCore

extension PostgresStorage {
  package func drawPreKeys(of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64)
    async throws(StoreError) -> [DrawnPreKey]
  {
    guard !devices.isEmpty else { return [] }
    // A key that another draw holds is passed over, not waited for: the next one serves as well. `picked` is
    // materialised, so that it runs once: what it locks is what is deleted.
    let account = PostgresParameter(account)
    let result = try await sharedWrite(
      "draw_prekeys",
      """
      WITH wanted AS MATERIALIZED (
          SELECT d.device, d.registration_id, a.identity_key, d.signed_prekey_id, d.signed_prekey,
            d.signed_prekey_signature, d.device = ANY (\(each: oneTime)) AS takes_one_time
          FROM devices AS d JOIN accounts AS a ON a.account = d.account
          WHERE d.account = \(account) AND d.device = ANY (\(each: devices)) AND a.identity_key IS NOT NULL
        ),
        picked AS MATERIALIZED (
          SELECT w.device, k.key_id
          FROM wanted AS w CROSS JOIN LATERAL (
            SELECT key_id FROM one_time_prekeys WHERE account = \(account) AND device = w.device
            ORDER BY key_id LIMIT 1 FOR UPDATE SKIP LOCKED
          ) AS k
          WHERE w.takes_one_time AND (SELECT value FROM epochs) >= \(epoch)
        ),
        drawn AS (
          DELETE FROM one_time_prekeys AS k USING picked AS p
          WHERE k.account = \(account) AND k.device = p.device AND k.key_id = p.key_id
          RETURNING k.device, k.key_id, k.public_key
        )
      SELECT w.device, w.registration_id, w.identity_key,
        coalesce(o.key_id, l.key_id), coalesce(o.public_key, l.public_key),
        w.signed_prekey_id, w.signed_prekey, w.signed_prekey_signature
      FROM wanted AS w
      LEFT JOIN drawn AS o ON o.device = w.device
      LEFT JOIN last_resort_prekeys AS l ON l.account = \(account) AND l.device = w.device
      WHERE o.device IS NOT NULL OR l.device IS NOT NULL OR w.signed_prekey_id IS NOT NULL
      ORDER BY w.device
      """)
    return try result.all(DrawnPreKey.init(row:))
  }
}

extension DrawnPreKey {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      device: try row.device(), registrationID: try row.integer(), identityKey: try row.opaque(),
      preKey: try PreKey(optional: &row), signedPreKey: try SignedPreKey(optional: &row))
  }
}

extension PreKey {
  /// Two columns; nil when the first is NULL.
  fileprivate init?(optional row: inout PostgresRow) throws(StoreError) {
    let (id, publicKey) = (try row.optionalBigint(), row.optionalOpaque())
    guard let id else { return nil }
    self.init(keyID: id, publicKey: try row.required(publicKey))
  }
}
