import GRDB
package import RelayCore

extension EmbeddedStorage {
  package func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool {
    let today = presentDay
    return try await read { db in
      try db.row(
        "SELECT 1 FROM crossings WHERE kind = 0 AND hour = ? AND tag = ? AND noted >= ? LIMIT 1",
        [hour.number, tag.bits, today - Int64(WireLimits.receiptDays)]) != nil
    }
  }
}
