import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool {
    let column =
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
        UPDATE devices SET \(column) = ?, fetches_messages = iif(?, 0, fetches_messages)
        WHERE \(column) = ? AND account = ? AND id = ?
          AND (? IS NULL OR push_registered IS NULL OR push_registered < ?)
        """,
        [
          replacement?.value.opaque, endsFetching, former.value.opaque, device.account.key, device.device.value,
          moment?.millis, moment?.millis,
        ])
      guard db.changesCount == 1 else { return false }
      try Self.changeListing(of: device.account, in: db) {
        try Self.update(device.account, DeviceChange(), in: db)
      }
      return true
    }
  }
}
