package import RelayCore

extension PostgresStorage {
  package func drawPreKeys(of account: AccountNumber, devices: [DeviceID], oneTime: [DeviceID], epoch: Int64)
    async throws(StoreError) -> [DrawnPreKey]
  {
    guard !devices.isEmpty else { return [] }
    // A key that another draw holds is passed over, not waited for: the next one serves as well. `picked` is
    // materialised, so that it runs once: what it locks is what is deleted.
    let result = try await sharedWrite(
      .prepared(
        "draw_prekeys",
        """
        WITH wanted AS MATERIALIZED (
            SELECT d.device, d.registration_id, a.identity_key, d.signed_prekey_id, d.signed_prekey,
              d.signed_prekey_signature, d.device = ANY ($3::integer[]) AS takes_one_time
            FROM devices AS d JOIN accounts AS a ON a.account = d.account
            WHERE d.account = $1::bigint AND d.device = ANY ($2::integer[]) AND a.identity_key IS NOT NULL
          ),
          picked AS MATERIALIZED (
            SELECT w.device, k.key_id
            FROM wanted AS w CROSS JOIN LATERAL (
              SELECT key_id FROM one_time_prekeys WHERE account = $1::bigint AND device = w.device
              ORDER BY key_id LIMIT 1 FOR UPDATE SKIP LOCKED
            ) AS k
            WHERE w.takes_one_time AND (SELECT value FROM epochs) >= $4::bigint
          ),
          drawn AS (
            DELETE FROM one_time_prekeys AS k USING picked AS p
            WHERE k.account = $1::bigint AND k.device = p.device AND k.key_id = p.key_id
            RETURNING k.device, k.key_id, k.public_key
          )
        SELECT w.device, w.registration_id, w.identity_key,
          coalesce(o.key_id, l.key_id), coalesce(o.public_key, l.public_key),
          w.signed_prekey_id, w.signed_prekey, w.signed_prekey_signature
        FROM wanted AS w
        LEFT JOIN drawn AS o ON o.device = w.device
        LEFT JOIN last_resort_prekeys AS l ON l.account = $1::bigint AND l.device = w.device
        WHERE o.device IS NOT NULL OR l.device IS NOT NULL OR w.signed_prekey_id IS NOT NULL
        ORDER BY w.device
        """),
      PostgresParameters {
        $0.add(account: account)
        $0.add(integers: devices.map(\.value))
        $0.add(integers: oneTime.map(\.value))
        $0.add(bigint: epoch)
      })
    var drawn: [DrawnPreKey] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      drawn.append(
        DrawnPreKey(
          device: try row.device(), registrationID: try row.integer(), identityKey: try row.opaque(),
          preKey: try row.optionalPreKey(), signedPreKey: try row.optionalSignedPreKey()))
    }
    return drawn
  }
}

extension PostgresRow {
  /// Two columns; nil when the first is NULL.
  fileprivate mutating func optionalPreKey() throws(StoreError) -> PreKey? {
    let (id, publicKey) = (try optionalBigint(), optionalOpaque())
    guard let id else { return nil }
    return PreKey(keyID: id, publicKey: try required(publicKey))
  }
}
