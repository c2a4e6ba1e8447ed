import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func accountCounts() async throws(StoreError) -> AccountCounts {
    try await read { db in
      let row = try Fields.valid(
        db.row(
          """
          SELECT count(*), count(*) FILTER (WHERE active), count(*) FILTER (WHERE active AND discoverable),
            (SELECT count(*) FROM devices)
          FROM accounts
          """))
      return try AccountCounts(
        accounts: Int(row.integer(0)), active: Int(row.integer(1)), discoverable: Int(row.integer(2)),
        devices: Int(row.integer(3)))
    }
  }

  package func accountSummaries(after number: AccountNumber?, limit: Int) async throws(StoreError) -> [AccountSummary] {
    try await read { db in
      try db.rows(
        """
        SELECT a.number, a.active, a.discoverable, (SELECT count(*) FROM devices AS d WHERE d.account = a.number),
          (SELECT max(last_seen) FROM devices AS d WHERE d.account = a.number)
        FROM accounts AS a WHERE a.number > ? ORDER BY a.number LIMIT ?
        """, [number?.key ?? 0, limit]
      ).map {
        try AccountSummary(
          number: $0.number(0), isActive: $0.flag(1), isDiscoverable: $0.flag(2), devices: Int($0.integer(3)),
          lastSeen: $0.optionalTime(4))
      }
    }
  }

  package func deviceHoldings(of number: AccountNumber) async throws(StoreError) -> [DeviceHoldings] {
    try await read { db in
      try db.rows(
        """
        SELECT d.id, (SELECT count(*) FROM messages AS m WHERE m.account = d.account AND m.device = d.id), (
            SELECT coalesce(sum(coalesce(length(message), 0) + coalesce(length(content), 0)), 0)
            FROM messages AS m WHERE m.account = d.account AND m.device = d.id
          ), (SELECT count(*) FROM prekeys AS k WHERE k.account = d.account AND k.device = d.id)
        FROM devices AS d WHERE d.account = ? ORDER BY d.id
        """, [number.key]
      ).map {
        try DeviceHoldings(
          device: $0.device(0), waiting: Int($0.integer(1)), waitingBytes: Int($0.integer(2)),
          oneTimePreKeys: Int($0.integer(3)))
      }
    }
  }

  package func handle(of number: AccountNumber) async throws(StoreError) -> AccountHandle {
    try await knownHandles.value(in: self).handle(of: number)
  }

  package func number(of handle: AccountHandle) async throws(StoreError) -> AccountNumber? {
    try await knownHandles.value(in: self).number(of: handle)
  }
}
