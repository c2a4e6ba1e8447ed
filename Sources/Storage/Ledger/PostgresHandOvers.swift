package import RelayCore

extension PostgresStorage {
  package func wasHandedOver(_ tag: HandOverTag, in hour: LedgerHour) async throws(StoreError) -> Bool {
    let result = try await read(
      .prepared(
        "was_handed_over",
        """
        SELECT EXISTS (
          SELECT FROM crossings
          WHERE kind = 0 AND hour = $1::integer AND tag = $2::bigint
            AND noted >= relay_present_day($4::date) - $3::integer)
        """),
      PostgresParameters {
        $0.add(integer: hour.number)
        $0.add(bigint: tag.bits)
        $0.add(integer: Int32(WireLimits.receiptDays))
        $0.add(integer: seenDay)
      })
    var row = result.cursor(row: 0)
    return try row.boolean()
  }
}
