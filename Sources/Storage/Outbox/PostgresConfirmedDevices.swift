package import RelayCore

extension PostgresStorage {
  package func confirmDevices(
    _ devices: [ConfirmedDevice], of account: AccountNumber, at relay: RelayName, now: Timestamp
  ) async throws(StoreError) {
    let devices = devices.sorted { $0.id < $1.id }
    // The peer's row is locked against its removal, which would leave the word of nobody behind.
    _ = try await write(
      .prepared(
        "confirm_devices",
        """
        WITH peer AS MATERIALIZED (SELECT name FROM peers WHERE name = $2::text FOR KEY SHARE)
        INSERT INTO confirmed_devices AS known (account, peer, devices, registration_ids, confirmed)
        SELECT $1::bigint, name, $3::integer[], $4::bigint[], $5::bigint FROM peer
        ON CONFLICT (account, peer) DO UPDATE SET devices = excluded.devices,
          registration_ids = excluded.registration_ids, confirmed = excluded.confirmed
        WHERE known.confirmed <= excluded.confirmed
        """),
      PostgresParameters {
        $0.add(account: account)
        $0.add(text: relay.text)
        $0.add(integers: devices.map(\.id.value))
        $0.add(bigints: devices.map(\.registrationID))
        $0.add(bigint: now.millis)
      })
  }

  package func confirmedDevices(of accounts: [AccountNumber], at relay: RelayName, since: Timestamp)
    async throws(StoreError) -> [AccountNumber: [ConfirmedDevice]]
  {
    guard !accounts.isEmpty else { return [:] }
    // A row also for a list without devices, of NULLs.
    let result = try await read(
      .prepared(
        "confirmed_devices",
        """
        SELECT c.account, d.device, d.registration_id
        FROM confirmed_devices AS c
        LEFT JOIN LATERAL unnest(c.devices, c.registration_ids) AS d (device, registration_id) ON true
        WHERE c.account = ANY ($1::bigint[]) AND c.peer = $2::text AND c.confirmed >= $3::bigint
        ORDER BY c.account, d.device
        """),
      PostgresParameters {
        $0.add(bigints: accounts.map(\.column))
        $0.add(text: relay.text)
        $0.add(bigint: since.millis)
      })
    var confirmed: [AccountNumber: [ConfirmedDevice]] = [:]
    for index in result.rows {
      var row = result.cursor(row: index)
      let account = try row.account()
      let known = confirmed[account, default: []]
      guard !row.isNull else {
        confirmed[account] = known
        continue
      }
      confirmed[account] = known + [ConfirmedDevice(id: try row.device(), registrationID: try row.bigint())]
    }
    return confirmed
  }

  package func forgetConfirmedDevices(of account: AccountNumber, at relay: RelayName) async throws(StoreError) {
    _ = try await write(
      .prepared(
        "forget_confirmed_devices",
        "DELETE FROM confirmed_devices WHERE account = $1::bigint AND peer = $2::text"),
      PostgresParameters {
        $0.add(account: account)
        $0.add(text: relay.text)
      })
  }

  /// Forgets lists that serve no more, some at a time: there may be one for each account that was ever written to.
  /// - Parameter past: the present as the judge of clocks allows it.
  func forgetOldConfirmations(at past: Timestamp) async throws(StoreError) {
    let chunkRows: Int64 = 10_000
    while true {
      let results = try await writeBulk([
        PostgresStep(
          .prepared(
            "forget_old_confirmations",
            """
            WITH old AS MATERIALIZED (
              SELECT account, peer FROM confirmed_devices
              WHERE confirmed < $1::bigint
              ORDER BY confirmed LIMIT $2::bigint FOR UPDATE SKIP LOCKED
            )
            DELETE FROM confirmed_devices AS c USING old AS o WHERE c.account = o.account AND c.peer = o.peer
            """),
          PostgresParameters {
            $0.add(bigint: past.millis - OutboxRow.confirmationMillisMax)
            $0.add(bigint: chunkRows)
          })
      ])
      guard let removed = results.first?.affectedRows, removed >= Int(chunkRows) else { return }
    }
  }
}
