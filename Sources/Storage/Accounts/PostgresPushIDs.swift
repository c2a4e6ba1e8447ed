package import RelayCore

extension PostgresStorage {
  package func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool {
    let replacement = PostgresParameter(opaque: replacement?.value)
    let moment = PostgresParameter(moment)
    let change = PostgresStep(
      kind.changeStatement,
      """
      UPDATE devices SET \(fragment: kind.column) = \(replacement),
        fetches_messages = fetches_messages AND NOT (\(kind.endsFetching) AND \(replacement) IS NULL)
      WHERE account = \(device.account) AND device = \(device.device)
        AND \(fragment: kind.column) = \(opaque: former.value)
        AND (\(moment) IS NULL OR push_registered IS NULL OR push_registered < \(moment))
      """)
    let results = try await write([Self.lockStep(device.account), change, Self.listStep(device, DeviceChange())])
    return results[1].affectedRows == 1
  }
}

extension PushIDKind {
  /// The name of the statement that changes the id.
  fileprivate var changeStatement: StaticString {
    switch self {
    case .fcm: "change_fcm_id"
    case .apns: "change_apns_id"
    case .voip: "change_voip_id"
    case .webPush: "change_web_push_id"
    }
  }
}
