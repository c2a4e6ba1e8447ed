package import RelayCore

extension PostgresStorage {
  package func accountCounts() async throws(StoreError) -> AccountCounts {
    let result = try await readBulk(
      "account_counts",
      """
      SELECT count(*), count(*) FILTER (WHERE active), count(*) FILTER (WHERE active AND discoverable),
        (SELECT count(*) FROM devices)
      FROM accounts
      """)
    guard let counts = try result.first(AccountCounts.init(row:)) else {
      throw .corrupted(reason: "a count has no row")
    }
    return counts
  }

  package func accountSummaries(after number: AccountNumber?, limit: Int) async throws(StoreError) -> [AccountSummary] {
    let result = try await readBulk(
      "account_summaries",
      """
      SELECT a.account, a.active, a.discoverable, d.devices, d.seen
      FROM (
        SELECT account, active, discoverable FROM accounts
        WHERE account > \(number?.column ?? 0) ORDER BY account LIMIT \(Int64(limit))
      ) AS a
      CROSS JOIN LATERAL (
        SELECT count(*) AS devices, max(last_seen) AS seen FROM devices AS d WHERE d.account = a.account
      ) AS d
      ORDER BY a.account
      """)
    return try result.all(AccountSummary.init(row:))
  }

  package func deviceHoldings(of number: AccountNumber) async throws(StoreError) -> [DeviceHoldings] {
    let account = PostgresParameter(number)
    let result = try await readBulk(
      "device_holdings",
      """
      WITH m AS MATERIALIZED (
          SELECT device, count(*) AS waiting,
            sum(coalesce(octet_length(message), 0) + coalesce(octet_length(content), 0))::bigint AS bytes
          FROM messages WHERE account = \(account) GROUP BY device
        ),
        k AS MATERIALIZED (
          SELECT device, count(*) AS keys FROM one_time_prekeys WHERE account = \(account) GROUP BY device
        )
      SELECT d.device, coalesce(m.waiting, 0), coalesce(m.bytes, 0), coalesce(k.keys, 0)
      FROM devices AS d LEFT JOIN m ON m.device = d.device LEFT JOIN k ON k.device = d.device
      WHERE d.account = \(account) ORDER BY d.device
      """)
    return try result.all(DeviceHoldings.init(row:))
  }

  package func handle(of number: AccountNumber) async throws(StoreError) -> AccountHandle {
    try await knownHandles.value(in: self).handle(of: number)
  }

  package func number(of handle: AccountHandle) async throws(StoreError) -> AccountNumber? {
    try await knownHandles.value(in: self).number(of: handle)
  }
}

extension AccountCounts {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      accounts: Int(try row.bigint()), active: Int(try row.bigint()), discoverable: Int(try row.bigint()),
      devices: Int(try row.bigint()))
  }
}

extension AccountSummary {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      number: try row.account(), isActive: try row.boolean(), isDiscoverable: try row.boolean(),
      devices: Int(try row.bigint()), lastSeen: try row.optionalTimestamp())
  }
}

extension DeviceHoldings {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(
      device: try row.device(), waiting: Int(try row.bigint()), waitingBytes: Int(try row.bigint()),
      oneTimePreKeys: Int(try row.bigint()))
  }
}
