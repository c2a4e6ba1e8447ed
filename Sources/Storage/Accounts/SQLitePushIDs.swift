import GRDB
package import RelayCore

extension SQLiteStorage {
  package func changePushID(
    _ kind: PushIDKind, of device: DeviceAddress, from former: Secret, to replacement: Secret?,
    registeredBefore moment: Timestamp?
  ) async throws(StoreError) -> Bool {
    let endsFetching = kind.endsFetching && replacement == nil
    return try await write { db in
      try db.run(
        """
        UPDATE devices SET \(kind) = \(opaque: replacement?.value),
          fetches_messages = iif(\(endsFetching), 0, fetches_messages)
        WHERE \(kind) = \(opaque: former.value) AND account = \(device.account) AND device = \(device.device)
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
