/// The last time that a store has seen and that was believed, and how far removal by age has come.
///
/// A clock up to a day beyond the last seen time is believed. One that is further ahead is not, until the operator
/// says that it is right: a clock that is wrong would otherwise remove at once all that is kept for a month. One that
/// is behind removes less, and moves nothing back.
package struct SeenTime: Sendable, Equatable {
  /// Zero before the first.
  package let seen: Timestamp
  /// Behind `seen` after the operator's word alone: removal follows by one step a run.
  package let cleared: Timestamp

  package static let never = SeenTime(seen: Timestamp(millis: 0), cleared: Timestamp(millis: 0))
  /// The furthest that a clock may be ahead, and that removal goes on in one run of maintenance. So one run removes
  /// two days' worth at most: one up to `cleared`, and one beyond it.
  package static let step = Duration.seconds(86_400)

  package init(seen: Timestamp, cleared: Timestamp) {
    self.seen = seen
    self.cleared = cleared
  }

  private var isFirst: Bool { seen.millis <= 0 }

  package func believes(_ clock: Timestamp) -> Bool { isFirst || clock <= seen.adding(Self.step) }

  /// `clock`, or the last seen time where it is not believed.
  package func believed(_ clock: Timestamp) -> Timestamp { believes(clock) ? clock : seen }

  /// The present as whatever removes by age may take it.
  package func removalTime(at clock: Timestamp) -> Timestamp {
    isFirst ? clock : min(believed(clock), cleared.adding(Self.step))
  }

  /// The present for notes that are kept for a time: never behind the last seen time. Otherwise a note made while a
  /// clock is behind would be past its time as soon as the clock is right.
  package func arrivalTime(at clock: Timestamp) -> Timestamp { max(clock, seen) }

  /// The present by which what was noted under `arrivalTime` is looked for.
  package func presentTime(at clock: Timestamp) -> Timestamp { believes(clock) ? max(clock, seen) : seen }

  /// How far `clock` is beyond what is believed; zero when it is believed.
  package func lead(of clock: Timestamp) -> Duration {
    believes(clock) ? .zero : .milliseconds(clock.millis - seen.millis)
  }

  /// How far `clock` is behind, where that is more than a step; else zero.
  package func lag(of clock: Timestamp) -> Duration {
    clock.adding(Self.step) < seen ? .milliseconds(seen.millis - clock.millis) : .zero
  }

  /// One run of maintenance.
  package func advanced(to clock: Timestamp) -> SeenTime {
    guard !isFirst else { return SeenTime(seen: clock, cleared: clock) }
    let seen = max(seen, believed(clock))
    return SeenTime(seen: seen, cleared: min(seen, cleared.adding(Self.step)))
  }

  /// By the operator's word, forward or back.
  package func accepting(_ clock: Timestamp) -> SeenTime {
    isFirst ? advanced(to: clock) : SeenTime(seen: clock, cleared: min(cleared, clock))
  }
}

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
