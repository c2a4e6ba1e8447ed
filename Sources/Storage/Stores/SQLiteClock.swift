// The last time that the process's clock was seen at and believed.

import GRDB
package import RelayCore

extension SQLiteStorage {
  package func clockReading() async throws(StoreError) -> ClockReading {
    let now = clock.now()
    return try await read { db in try ClockReading(now: now, time: Self.seenTime(in: db)) }
  }

  /// One run of maintenance: moves the last seen time on, and teaches the judge.
  func advanceClock() async throws(StoreError) -> ClockReading { try await changeClock { $0.advanced(to: $1) } }

  package func acceptClock() async throws(StoreError) -> ClockReading { try await changeClock { $0.accepting($1) } }

  private func changeClock(_ change: @Sendable (SeenTime, Timestamp) -> SeenTime) async throws(StoreError)
    -> ClockReading
  {
    let now = clock.now()
    let changed = try await write { db in
      let former = try Self.seenTime(in: db)
      let changed = change(former, now)
      if changed != former {
        try db.run("UPDATE store_clock SET seen = \(changed.seen), cleared = \(changed.cleared)")
      }
      return changed
    }
    judge.learn(changed)
    return ClockReading(now: now, time: changed)
  }

  static func seenTime(in db: Database) throws -> SeenTime {
    let row = try Fields.valid(db.row("SELECT seen, cleared FROM store_clock"))
    return try SeenTime(seen: row.time(0), cleared: row.time(1))
  }

  /// The day that what comes now is kept under.
  var arrivalDay: Int64 { JudgedClock(clock, by: judge).arrival().day }

  /// Today, by which what is kept is looked for.
  var presentDay: Int64 {
    let now = clock.now()
    return (judge.time?.presentTime(at: now) ?? now).day
  }
}
