import GRDB
package import RelayCore

extension SQLiteStorage {
  package func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool {
    let today = presentDay
    return try await read { db in
      try db.row(
        """
        SELECT 1 FROM crossings
        WHERE kind = 0 AND hour = \(hour.number) AND tag = \(tag.bits)
          AND noted >= \(today - Int64(WireLimits.receiptDays)) LIMIT 1
        """
      ) != nil
    }
  }
}
