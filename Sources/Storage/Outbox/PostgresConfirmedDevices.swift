package import RelayCore

extension PostgresStorage {
  package func confirmDevices(
    _ devices: [ConfirmedDevice], of account: AccountNumber, at relay: RelayName, now: Timestamp
  ) async throws(StoreError) {
    let devices = devices.sorted { $0.id < $1.id }
    // The peer's row is locked against its removal, which would leave the word of nobody behind.
    _ = try await write(
      "confirm_devices",
      """
      WITH peer AS MATERIALIZED (SELECT name FROM peers WHERE name = \(relay) FOR KEY SHARE)
      INSERT INTO confirmed_devices AS known (account, peer, devices, registration_ids, confirmed)
      SELECT \(account), name, \(each: devices.lazy.map(\.id)), \(each: devices.lazy.map(\.registrationID)), \(now)
      FROM peer
      ON CONFLICT (account, peer) DO UPDATE SET devices = excluded.devices,
        registration_ids = excluded.registration_ids, confirmed = excluded.confirmed
      WHERE known.confirmed <= excluded.confirmed
        OR known.confirmed > excluded.confirmed + \(OutboxRow.confirmationSkewMillis)
      """)
  }

  package func confirmedDevices(of accounts: [AccountNumber], at relay: RelayName, since: Timestamp)
    async throws(StoreError) -> [AccountNumber: [ConfirmedDevice]]
  {
    guard !accounts.isEmpty else { return [:] }
    // A row also for a list without devices, of NULLs.
    let result = try await read(
      "confirmed_devices",
      """
      SELECT c.account, d.device, d.registration_id
      FROM confirmed_devices AS c
      LEFT JOIN LATERAL unnest(c.devices, c.registration_ids) AS d (device, registration_id) ON true
      WHERE c.account = ANY (\(each: accounts)) AND c.peer = \(relay) AND c.confirmed >= \(since)
      ORDER BY c.account, d.device
      """)
    let rows = try result.all { (row) throws(StoreError) in
      (account: try row.account(), device: try ConfirmedDevice(optional: &row))
    }
    var confirmed: [AccountNumber: [ConfirmedDevice]] = [:]
    for row in rows { confirmed[row.account, default: []] += row.device.map { [$0] } ?? [] }
    return confirmed
  }

  package func forgetConfirmedDevices(of account: AccountNumber, at relay: RelayName) async throws(StoreError) {
    _ = try await write(
      "forget_confirmed_devices", "DELETE FROM confirmed_devices WHERE account = \(account) AND peer = \(relay)")
  }

  /// Forgets lists that serve no more, some at a time: there may be one for each account that was ever written to.
  /// - Parameter past: the present as the judge of clocks allows it.
  func forgetOldConfirmations(at past: Timestamp) async throws(StoreError) {
    let chunkRows: Int64 = 10_000
    while true {
      let results = try await writeBulk([
        PostgresStep(
          "forget_old_confirmations",
          """
          WITH old AS MATERIALIZED (
            SELECT account, peer FROM confirmed_devices
            WHERE confirmed < \(past.millis - OutboxRow.confirmationMillisMax)
            ORDER BY confirmed LIMIT \(chunkRows) FOR UPDATE SKIP LOCKED
          )
          DELETE FROM confirmed_devices AS c USING old AS o WHERE c.account = o.account AND c.peer = o.peer
          """)
      ])
      guard let removed = results.first?.affectedRows, removed >= Int(chunkRows) else { return }
    }
  }
}

extension ConfirmedDevice {
  /// Two columns; nil when the first is NULL.
  fileprivate init?(optional row: inout PostgresRow) throws(StoreError) {
    guard !row.isNull else { return nil }
    self.init(id: try row.device(), registrationID: try row.bigint())
  }
}
