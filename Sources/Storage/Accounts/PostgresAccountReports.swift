package import RelayCore

extension PostgresStorage {
  package func accountCounts() async throws(StoreError) -> AccountCounts {
    let result = try await readBulk(
      .prepared(
        "account_counts",
        """
        SELECT count(*), count(*) FILTER (WHERE active), count(*) FILTER (WHERE active AND discoverable),
          (SELECT count(*) FROM devices)
        FROM accounts
        """), .none)
    guard result.rowCount == 1 else { throw .corrupted(reason: "a count has no row") }
    var row = result.cursor(row: 0)
    return AccountCounts(
      accounts: Int(try row.bigint()), active: Int(try row.bigint()), discoverable: Int(try row.bigint()),
      devices: Int(try row.bigint()))
  }

  package func accountSummaries(after number: AccountNumber?, limit: Int) async throws(StoreError) -> [AccountSummary] {
    let result = try await readBulk(
      .prepared(
        "account_summaries",
        """
        SELECT a.account, a.active, a.discoverable, d.devices, d.seen
        FROM (SELECT account, active, discoverable FROM accounts WHERE account > $1::bigint ORDER BY account LIMIT $2::bigint) AS a
        CROSS JOIN LATERAL (
          SELECT count(*) AS devices, max(last_seen) AS seen FROM devices AS d WHERE d.account = a.account
        ) AS d
        ORDER BY a.account
        """),
      PostgresParameters {
        $0.add(bigint: number?.column ?? 0)
        $0.add(bigint: Int64(limit))
      })
    var summaries: [AccountSummary] = []
    summaries.reserveCapacity(result.rowCount)
    for index in result.rows {
      var row = result.cursor(row: index)
      summaries.append(
        AccountSummary(
          number: try row.account(), isActive: try row.boolean(), isDiscoverable: try row.boolean(),
          devices: Int(try row.bigint()), lastSeen: try row.optionalTimestamp()))
    }
    return summaries
  }

  package func deviceHoldings(of number: AccountNumber) async throws(StoreError) -> [DeviceHoldings] {
    let result = try await readBulk(
      .prepared(
        "device_holdings",
        """
        SELECT d.device, m.waiting, m.bytes, (
            SELECT count(*) FROM one_time_prekeys AS k WHERE k.account = d.account AND k.device = d.device
          )
        FROM devices AS d
        CROSS JOIN LATERAL (
          SELECT count(*) AS waiting,
            coalesce(sum(coalesce(octet_length(message), 0) + coalesce(octet_length(content), 0)), 0)::bigint AS bytes
          FROM messages AS m WHERE m.account = d.account AND m.device = d.device
        ) AS m
        WHERE d.account = $1::bigint ORDER BY d.device
        """),
      PostgresParameters { $0.add(account: number) })
    var holdings: [DeviceHoldings] = []
    for index in result.rows {
      var row = result.cursor(row: index)
      holdings.append(
        DeviceHoldings(
          device: try row.device(), waiting: Int(try row.bigint()), waitingBytes: Int(try row.bigint()),
          oneTimePreKeys: Int(try row.bigint())))
    }
    return holdings
  }

  package func handle(of number: AccountNumber) async throws(StoreError) -> AccountHandle {
    try await knownHandles.value(in: self).handle(of: number)
  }

  package func number(of handle: AccountHandle) async throws(StoreError) -> AccountNumber? {
    try await knownHandles.value(in: self).number(of: handle)
  }
}
