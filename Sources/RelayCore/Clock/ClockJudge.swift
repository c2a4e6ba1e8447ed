import Synchronization

/// Judges what clocks say, for all that removes by age in a process, by the last time that its store has seen.
package final class ClockJudge: Sendable {
  private let known = Mutex<SeenTime?>(nil)

  package init() {}

  /// nil before the store was asked.
  package var time: SeenTime? { known.withLock { $0 } }

  package func learn(_ time: SeenTime) { known.withLock { $0 = time } }
}

/// A clock, and the judge of it: each use of the time takes the reading that is safe for it.
package struct JudgedClock: Sendable {
  private let clock: WallClock
  private let judge: ClockJudge?

  package init(_ clock: WallClock, by judge: ClockJudge) {
    self.clock = clock
    self.judge = judge
  }

  /// Believes every reading: for commands that remove nothing by age, and tests.
  package init(unjudged clock: WallClock) {
    self.clock = clock
    judge = nil
  }

  package func now() -> Timestamp { clock.now() }

  /// As it is.
  package var wall: WallClock { clock }

  /// `SeenTime.believed`: by it devices are active or not.
  package func believed() -> Timestamp { judge?.time?.believed(now()) ?? now() }

  /// `SeenTime.arrivalTime`: by it things are given their end.
  package func arrival() -> Timestamp { judge?.time?.arrivalTime(at: now()) ?? now() }

  /// `SeenTime.removalTime`: by it things have ended. Before the store was asked nothing has.
  package func removal() -> Timestamp {
    guard let judge else { return now() }
    return judge.time?.removalTime(at: now()) ?? Timestamp(millis: 0)
  }

  package var believing: WallClock { WallClock { believed() } }
  package var arriving: WallClock { WallClock { arrival() } }
}
