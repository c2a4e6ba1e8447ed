package import RelayCore

extension PostgresStorage {
  package func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool {
    let result = try await read(
      "was_handed_over",
      """
      SELECT EXISTS (
        SELECT FROM crossings
        WHERE kind = 0 AND hour = \(hour.number) AND tag = \(tag.bits)
          AND noted >= relay_present_day(\(seenDay.map(PostgresDate.init))) - \(Int32(WireLimits.receiptDays)))
      """)
    var row = result.cursor(row: 0)
    return try row.boolean()
  }
}
