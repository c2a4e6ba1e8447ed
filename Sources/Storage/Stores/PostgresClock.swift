// The last time that the database's clock was seen at and believed.

package import RelayCore

extension PostgresStorage {
  package func clockReading() async throws(StoreError) -> ClockReading {
    let result = try await read(
      "clock_reading", "SELECT floor(extract(epoch FROM now()) * 1000)::bigint, seen, cleared FROM store_clock")
    guard let reading = try result.first(ClockReading.init(row:)) else {
      throw .corrupted(reason: "the table store_clock lacks its row")
    }
    return reading
  }

  /// One run of maintenance: moves the last seen time on, and teaches the judge.
  func advanceClock() async throws(StoreError) -> ClockReading {
    try await changeClock { $0.time.advanced(to: $0.now) }
  }

  package func acceptClock() async throws(StoreError) -> ClockReading {
    try await changeClock { $0.time.accepting($0.now) }
  }

  /// Several processes may do so at once: whoever finds another row than it judged by judges anew.
  private func changeClock(_ change: (ClockReading) -> SeenTime) async throws(StoreError) -> ClockReading {
    for _ in 0..<Self.clockTriesMax {
      let reading = try await clockReading()
      let changed = change(reading)
      if changed == reading.time { return learned(reading) }
      let result = try await write(
        "change_clock",
        """
        UPDATE store_clock SET seen = \(changed.seen), cleared = \(changed.cleared)
        WHERE seen = \(reading.time.seen) AND cleared = \(reading.time.cleared)
        """)
      if result.affectedRows == 1 { return learned(ClockReading(now: reading.now, time: changed)) }
    }
    // Others have moved it, as often as this one tried.
    return learned(try await clockReading())
  }

  private static let clockTriesMax = 8

  private func learned(_ reading: ClockReading) -> ClockReading {
    judge.learn(reading.time)
    return reading
  }

  /// The day of the last seen time; nil, NULL in SQL, where it is not known. Statements give it to
  /// `relay_arrival_day`, the day that what comes now is kept under, and `relay_present_day`, by which what is kept is
  /// looked for.
  var seenDay: PostgresMailboxDays.Day? { judge.seenDay }
}

extension ClockJudge {
  /// As PostgreSQL counts days.
  var seenDay: PostgresMailboxDays.Day? {
    guard let seen = time?.seen, seen.millis > 0 else { return nil }
    return PostgresMailboxDays.Day(clamping: seen.day - Self.daysTo2000)
  }

  static let daysTo2000: Int64 = 10_957
}

extension ClockReading {
  fileprivate init(row: inout PostgresRow) throws(StoreError) {
    self.init(now: try row.timestamp(), time: SeenTime(seen: try row.timestamp(), cleared: try row.timestamp()))
  }
}
