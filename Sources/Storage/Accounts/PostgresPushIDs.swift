package import RelayCore

extension PostgresStorage {
  package func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool {
    let parameters = PostgresParameters {
      $0.add(account: device.account)
      $0.add(device: device.device)
      $0.add(opaque: former.value)
      $0.add(opaque: replacement?.value)
      $0.add(bigint: moment?.millis)
    }
    let results = try await write([
      Self.lockStep(device.account), PostgresStep(Self.changePushID(kind), parameters),
      Self.listStep(device, DeviceChange()),
    ])
    return results.dropFirst().first?.affectedRows == 1
  }

  private static func changePushID(_ kind: PushIDKind) -> PostgresStatement {
    switch kind {
    case .gcm:
      .prepared(
        "change_gcm_id",
        """
        UPDATE devices SET gcm_id = $4::bytea,
          fetches_messages = CASE WHEN $4::bytea IS NULL THEN false ELSE fetches_messages END
        WHERE account = $1::bigint AND device = $2::integer AND gcm_id = $3::bytea
          AND ($5::bigint IS NULL OR push_registered IS NULL OR push_registered < $5::bigint)
        """)
    case .apn:
      .prepared(
        "change_apn_id",
        """
        UPDATE devices SET apn_id = $4::bytea
        WHERE account = $1::bigint AND device = $2::integer AND apn_id = $3::bytea
          AND ($5::bigint IS NULL OR push_registered IS NULL OR push_registered < $5::bigint)
        """)
    case .voip:
      .prepared(
        "change_voip_apn_id",
        """
        UPDATE devices SET voip_apn_id = $4::bytea
        WHERE account = $1::bigint AND device = $2::integer AND voip_apn_id = $3::bytea
          AND ($5::bigint IS NULL OR push_registered IS NULL OR push_registered < $5::bigint)
        """)
    case .webPush:
      .prepared(
        "change_web_push",
        """
        UPDATE devices SET web_push = $4::bytea
        WHERE account = $1::bigint AND device = $2::integer AND web_push = $3::bytea
          AND ($5::bigint IS NULL OR push_registered IS NULL OR push_registered < $5::bigint)
        """)
    }
  }
}
