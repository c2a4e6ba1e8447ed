// The store's memory of the time, so that a clock that is wrong removes nothing.

/// The judge of clocks, and the row that it judges by.
package protocol ClockStore: Sendable {
  /// Judges the clocks of this process and of the store. `MessageStore.maintain` teaches it.
  var judge: ClockJudge { get }
  /// The store's clock, and what it remembers.
  func clockReading() async throws(StoreError) -> ClockReading
  /// The operator's word that the store's clock is right as it is.
  /// - Returns: what it came to.
  func acceptClock() async throws(StoreError) -> ClockReading
}

/// The store's clock at one moment, beside what it remembers.
package struct ClockReading: Sendable, Equatable {
  /// PostgreSQL's clock; with embedded stores, the process's.
  package let now: Timestamp
  package let time: SeenTime
  package init(now: Timestamp, time: SeenTime) {
    self.now = now
    self.time = time
  }

  package var removalTime: Timestamp { time.removalTime(at: now) }
}
