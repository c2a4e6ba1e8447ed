/// The turns of a loop that keeps to a beat: the first comes after an interval, each other an interval after the one
/// before it was due, however long that took.
///
/// A turn that takes longer than the interval is followed at once by the next, and the beat goes on from there. The
/// loop ends when its task is cancelled.
package struct Beat<C: Clock<Duration>>: AsyncSequence, Sendable {
  package typealias Element = Void
  package typealias Failure = Never

  private let interval: Duration
  private let clock: C

  package init(every interval: Duration, on clock: C) {
    self.interval = interval
    self.clock = clock
  }

  package func makeAsyncIterator() -> Iterator {
    Iterator(interval: interval, due: clock.now.advanced(by: interval), clock: clock)
  }

  package struct Iterator: AsyncIteratorProtocol {
    fileprivate let interval: Duration
    fileprivate var due: C.Instant
    fileprivate let clock: C

    package mutating func next() async -> Void? { await next(isolation: nil) }

    /// - Returns: nil once the task is cancelled.
    package mutating func next(isolation actor: isolated (any Actor)?) async -> Void? {
      // A turn before this one may have taken until now.
      let moment = Swift.max(due, clock.now)
      guard await Pause.until(moment, on: clock) else { return nil }
      due = moment.advanced(by: interval)
      return ()
    }
  }
}

extension Beat where C == ContinuousClock {
  package init(every interval: Duration) { self.init(every: interval, on: ContinuousClock()) }
}
