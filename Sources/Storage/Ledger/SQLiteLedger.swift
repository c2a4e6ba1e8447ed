import GRDB
package import RelayCore

extension SQLiteStorage {
  package func record(_ record: LedgerRecord) async throws(StoreError) {
    guard !record.crossings.isEmpty, record.event != .accepted else { return }
    let (now, day) = (clock.now(), presentDay)
    try await write { db in try Self.count(record, at: now, day: day, in: db) }
  }

  package func ledger(of relay: RelayName, in hours: ClosedRange<LedgerHour>) async throws(StoreError) -> [LedgerEntry]
  {
    try await read { db in
      try db.rows(
        """
        SELECT hour, kind, event, crossings, digest FROM loss_ledger
        WHERE peer = \(relay) AND hour BETWEEN \(hours.lowerBound.number) AND \(hours.upperBound.number)
        ORDER BY hour, kind, event
        """
      ).map(LedgerEntry.init(row:))
    }
  }

  /// Counts what of `record` is news.
  /// - Parameter day: the present one, as the judge of clocks allows it.
  static func count(_ record: LedgerRecord, at now: Timestamp, day: Int64, in db: Database) throws {
    var sums = LedgerSums(relay: record.relay)
    for crossing in record.crossings {
      switch record.event {
      case .handedOver:
        if try note(crossing, settled: false, day, in: db) { sums.add(.handedOver, crossing) }
      case .answered:
        // If the store was away when a crossing was handed over, that was not noted. It counts as handed over now.
        if try note(crossing, settled: true, day, in: db) {
          sums.add(.handedOver, crossing)
          sums.add(.answered, crossing)
        } else {
          try db.run("UPDATE crossings SET settled = 1 WHERE \(isIt(crossing)) AND settled = 0")
          if db.changesCount == 1 { sums.add(.answered, crossing) }
        }
      case .refused:
        // Forgotten: handed over again, it is counted again.
        try db.run("DELETE FROM crossings WHERE \(isIt(crossing)) AND settled = 0")
        if db.changesCount == 1 { sums.add(.refused, crossing) }
      case .turnedDown:
        // A peer's word on hours that are not kept makes no rows.
        if abs(Int64(crossing.hour.number) - Int64(LedgerHour(of: now).number)) <= Int64(LedgerLife.hours) {
          sums.add(.turnedDown, crossing)
        }
      case .accepted: sums.add(.accepted, crossing)
      }
    }
    try sums.write(in: db)
  }

  private static func isIt(_ crossing: Crossing) -> SQL {
    """
    kind = \(crossing.kind.rawValue) AND hour = \(crossing.hour.number) AND tag = \(crossing.tag?.bits ?? 0)
      AND mark = \(crossing.mark.bits)
    """
  }

  /// - Returns: whether it was not there.
  private static func note(_ crossing: Crossing, settled: Bool, _ day: Int64, in db: Database) throws -> Bool {
    try db.run(
      """
      INSERT INTO crossings (kind, hour, tag, mark, noted, settled)
      VALUES (\(crossing.kind.rawValue), \(crossing.hour.number), \(crossing.tag?.bits ?? 0), \(crossing.mark.bits),
        \(day), \(settled))
      ON CONFLICT DO NOTHING
      """)
    return db.changesCount == 1
  }

  /// Forgets what is past its time, some at a time.
  /// - Parameters:
  ///   - past: the present as the judge of clocks allows it.
  ///   - future: never behind the last seen time: by it hours are ahead.
  func forgetOldLedger(at past: Timestamp, future: Timestamp) async throws(StoreError) {
    let hour = LedgerHour(of: past)
    let ahead = LedgerHour(of: future).adding(hours: LedgerLife.hoursAhead).number
    for kind in Crossing.Kind.allCases {
      let days = LedgerLife.markDays(of: kind)
      let conditions: [SQL] = ["hour < \(hour.adding(hours: -days * 24).number)", "hour > \(ahead)"]
      for condition in conditions {
        try await forget(
          """
          DELETE FROM crossings WHERE (kind, hour, tag, mark) IN (
            SELECT kind, hour, tag, mark FROM crossings
            WHERE kind = \(kind.rawValue) AND \(condition) AND noted < \(past.day - Int64(days))
            LIMIT \(Self.chunkRows))
          """)
      }
    }
    let conditions: [SQL] = ["hour < \(hour.adding(hours: -LedgerLife.hours).number)", "hour > \(ahead)"]
    for condition in conditions {
      try await forget(
        """
        DELETE FROM loss_ledger WHERE (peer, hour, kind, event) IN (
          SELECT peer, hour, kind, event FROM loss_ledger WHERE \(condition) LIMIT \(Self.chunkRows))
        """)
    }
  }
}

extension LedgerEntry {
  fileprivate init(row: Fields) throws(StoreError) {
    let event = try LedgerRecord.Event(rawValue: Int16(truncatingIfNeeded: row.integer(2)))
    self.init(
      hour: LedgerHour(number: Int32(truncatingIfNeeded: try row.integer(0))),
      kind: try Fields.valid(Crossing.Kind(rawValue: Int16(truncatingIfNeeded: row.integer(1)))),
      event: try Fields.valid(event),
      sum: LedgerSum(count: try row.integer(3), digest: UInt64(bitPattern: try row.integer(4))))
  }
}

/// The counts that one transaction adds to the ledger: one row is written for many crossings.
struct LedgerSums {
  private struct Key: Hashable {
    let relay: RelayName
    let hour: LedgerHour
    let kind: Crossing.Kind
    let event: LedgerRecord.Event
  }

  private let relay: RelayName?
  private var sums: [Key: LedgerSum] = [:]

  /// - Parameter relay: the peer of what is added without one.
  init(relay: RelayName? = nil) { self.relay = relay }

  mutating func add(_ event: LedgerRecord.Event, _ crossing: Crossing, of peer: RelayName? = nil) {
    guard let relay = peer ?? relay else { return }
    let key = Key(relay: relay, hour: crossing.hour, kind: crossing.kind, event: event)
    let one = LedgerSum(count: 1, digest: UInt64(bitPattern: crossing.mark.bits))
    sums[key, default: LedgerSum()] = sums[key, default: LedgerSum()] + one
  }

  func write(in db: Database) throws {
    for (key, sum) in sums {
      let (peer, hour, kind, event) = (key.relay, key.hour.number, key.kind.rawValue, key.event.rawValue)
      // SQLite's own addition would become a floating-point number where it overflows.
      let known = try db.row(
        """
        SELECT crossings, digest FROM loss_ledger
        WHERE peer = \(peer) AND hour = \(hour) AND kind = \(kind) AND event = \(event)
        """)
      let former = try known.map { try LedgerSum(count: $0.integer(0), digest: UInt64(bitPattern: $0.integer(1))) }
      let new = (former ?? LedgerSum()) + sum
      try db.run(
        """
        INSERT INTO loss_ledger (peer, hour, kind, event, crossings, digest)
        VALUES (\(peer), \(hour), \(kind), \(event), \(new.count), \(Int64(bitPattern: new.digest)))
        ON CONFLICT (peer, hour, kind, event) DO UPDATE SET crossings = excluded.crossings, digest = excluded.digest
        """)
    }
  }
}

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
