import GRDB
package import RelayCore

extension SQLiteStorage {
  package func confirmDevices(
    _ devices: [ConfirmedDevice], of account: AccountNumber, at relay: RelayName, now: Timestamp
  ) async throws(StoreError) {
    let text = Self.text(devices)
    try await write { db in
      try db.run(
        """
        INSERT INTO confirmed_devices (account, peer, devices, confirmed)
        SELECT \(account), name, \(text), \(now) FROM peers WHERE name = \(relay)
        ON CONFLICT (account, peer) DO UPDATE SET devices = excluded.devices, confirmed = excluded.confirmed
        WHERE confirmed <= excluded.confirmed OR confirmed > excluded.confirmed + \(OutboxRow.confirmationSkewMillis)
        """)
    }
  }

  package func confirmedDevices(of accounts: [AccountNumber], at relay: RelayName, since: Timestamp)
    async throws(StoreError) -> [AccountNumber: [ConfirmedDevice]]
  {
    guard !accounts.isEmpty else { return [:] }
    return try await read { db in
      var confirmed: [AccountNumber: [ConfirmedDevice]] = [:]
      for account in accounts {
        let found = try db.row(
          """
          SELECT devices FROM confirmed_devices
          WHERE account = \(account) AND peer = \(relay) AND confirmed >= \(since)
          """)
        confirmed[account] = try found.map { try Self.confirmedDevices($0.text(0)) }
      }
      return confirmed
    }
  }

  package func forgetConfirmedDevices(of account: AccountNumber, at relay: RelayName) async throws(StoreError) {
    try await write { db in
      try db.run("DELETE FROM confirmed_devices WHERE account = \(account) AND peer = \(relay)")
    }
  }

  /// As `OutboxSchema` says.
  private static func text(_ devices: [ConfirmedDevice]) -> String {
    devices.sorted { $0.id < $1.id }.map { "\($0.id.value):\($0.registrationID)" }.joined(separator: " ")
  }

  private static func confirmedDevices(_ text: String) throws(StoreError) -> [ConfirmedDevice] {
    var devices: [ConfirmedDevice] = []
    for word in text.split(separator: " ") {
      let parts = word.split(separator: ":", maxSplits: 1).compactMap { Int64($0) }
      guard parts.count == 2 else { throw .corrupted(reason: "a column holds what no relay writes") }
      devices.append(ConfirmedDevice(id: try Fields.valid(DeviceID(parts[0])), registrationID: parts[1]))
    }
    return devices
  }
}
