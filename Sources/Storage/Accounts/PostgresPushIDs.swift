package import RelayCore

extension PostgresStorage {
  package func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool {
    let replacement = PostgresParameter(opaque: replacement?.value)
    let moment = PostgresParameter(moment)
    let change =
      switch kind {
      case .gcm:
        PostgresStep(
          "change_gcm_id",
          """
          UPDATE devices SET gcm_id = \(replacement),
            fetches_messages = CASE WHEN \(replacement) IS NULL THEN false ELSE fetches_messages END
          WHERE account = \(device.account) AND device = \(device.device) AND gcm_id = \(opaque: former.value)
            AND (\(moment) IS NULL OR push_registered IS NULL OR push_registered < \(moment))
          """)
      case .apn:
        PostgresStep(
          "change_apn_id",
          """
          UPDATE devices SET apn_id = \(replacement)
          WHERE account = \(device.account) AND device = \(device.device) AND apn_id = \(opaque: former.value)
            AND (\(moment) IS NULL OR push_registered IS NULL OR push_registered < \(moment))
          """)
      case .voip:
        PostgresStep(
          "change_voip_apn_id",
          """
          UPDATE devices SET voip_apn_id = \(replacement)
          WHERE account = \(device.account) AND device = \(device.device) AND voip_apn_id = \(opaque: former.value)
            AND (\(moment) IS NULL OR push_registered IS NULL OR push_registered < \(moment))
          """)
      case .webPush:
        PostgresStep(
          "change_web_push",
          """
          UPDATE devices SET web_push = \(replacement)
          WHERE account = \(device.account) AND device = \(device.device) AND web_push = \(opaque: former.value)
            AND (\(moment) IS NULL OR push_registered IS NULL OR push_registered < \(moment))
          """)
      }
    let results = try await write([Self.lockStep(device.account), change, Self.listStep(device, DeviceChange())])
    return results[1].affectedRows == 1
  }
}
