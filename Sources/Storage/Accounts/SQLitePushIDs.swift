import GRDB
package import RelayCore

extension SQLiteStorage {
  package func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool {
    let column: SQL =
      switch kind {
      case .gcm: "gcm_id"
      case .apn: "apn_id"
      case .voip: "voip_apn_id"
      case .webPush: "web_push"
      }
    let endsFetching = kind == .gcm && replacement == nil
    return try await write { db in
      try db.run(
        """
        UPDATE devices SET \(column) = \(opaque: replacement?.value),
          fetches_messages = iif(\(endsFetching), 0, fetches_messages)
        WHERE \(column) = \(opaque: former.value) AND account = \(device.account) AND id = \(device.device)
          AND (\(moment) IS NULL OR push_registered IS NULL OR push_registered < \(moment))
        """)
      guard db.changesCount == 1 else { return false }
      try Self.changeListing(of: device.account, in: db) {
        try Self.update(device.account, DeviceChange(), in: db)
      }
      return true
    }
  }
}
