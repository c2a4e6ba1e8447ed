import GRDB
package import RelayCore

extension SQLiteStorage {
  package func accountCounts() async throws(StoreError) -> AccountCounts {
    try await read { db in
      let row = try Fields.valid(
        db.row(
          """
          SELECT count(*), count(*) FILTER (WHERE active), count(*) FILTER (WHERE active AND discoverable),
            (SELECT count(*) FROM devices)
          FROM accounts
          """))
      return try AccountCounts(row: row)
    }
  }

  package func accountSummaries(after number: AccountNumber?, limit: Int) async throws(StoreError) -> [AccountSummary] {
    try await read { db in
      try db.rows(
        """
        SELECT a.account, a.active, a.discoverable, (SELECT count(*) FROM devices AS d WHERE d.account = a.account),
          (SELECT max(last_seen) FROM devices AS d WHERE d.account = a.account)
        FROM accounts AS a WHERE a.account > \(number?.key ?? 0) ORDER BY a.account LIMIT \(limit)
        """
      ).map(AccountSummary.init(row:))
    }
  }

  package func deviceHoldings(of number: AccountNumber) async throws(StoreError) -> [DeviceHoldings] {
    try await read { db in
      try db.rows(
        """
        SELECT d.device, (SELECT count(*) FROM messages AS m WHERE m.account = d.account AND m.device = d.device), (
            SELECT coalesce(sum(coalesce(length(message), 0) + coalesce(length(content), 0)), 0)
            FROM messages AS m WHERE m.account = d.account AND m.device = d.device
          ), (SELECT count(*) FROM one_time_prekeys AS k WHERE k.account = d.account AND k.device = d.device)
        FROM devices AS d WHERE d.account = \(number) ORDER BY d.device
        """
      ).map(DeviceHoldings.init(row:))
    }
  }

  package func handle(of number: AccountNumber) async throws(StoreError) -> AccountHandle {
    try await knownHandles.value(in: self).handle(of: number)
  }

  package func number(of handle: AccountHandle) async throws(StoreError) -> AccountNumber? {
    try await knownHandles.value(in: self).number(of: handle)
  }
}

extension AccountCounts {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      accounts: Int(try row.integer(0)), active: Int(try row.integer(1)), discoverable: Int(try row.integer(2)),
      devices: Int(try row.integer(3)))
  }
}

extension AccountSummary {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      number: try row.number(0), isActive: try row.flag(1), isDiscoverable: try row.flag(2),
      devices: Int(try row.integer(3)), lastSeen: row.optionalTime(4))
  }
}

extension DeviceHoldings {
  fileprivate init(row: Fields) throws(StoreError) {
    self.init(
      device: try row.device(0), waiting: Int(try row.integer(1)), waitingBytes: Int(try row.integer(2)),
      oneTimePreKeys: Int(try row.integer(3)))
  }
}
