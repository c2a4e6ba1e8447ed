/// The turns of a loop that does something every so often:
///
///     for await _ in Periodic(every: .seconds(1)) { await look() }
///
/// Each interval begins when the turn before it has ended. The loop ends when its task is cancelled: a turn that has
/// begun is not cut short by that, and no other begins.
package struct Periodic<C: Clock<Duration>>: AsyncSequence, Sendable {
  package enum Beginning: Sendable {
    case atOnce
    case afterInterval
  }

  package typealias Element = Void
  package typealias Failure = Never

  private let interval: Duration
  private let beginning: Beginning
  private let clock: C

  /// - Parameter beginning: when the first turn comes.
  package init(every interval: Duration, from beginning: Beginning = .atOnce, on clock: C) {
    self.interval = interval
    self.beginning = beginning
    self.clock = clock
  }

  package func makeAsyncIterator() -> Iterator {
    Iterator(interval: interval, isDue: beginning == .atOnce, clock: clock)
  }

  package struct Iterator: AsyncIteratorProtocol {
    fileprivate let interval: Duration
    fileprivate var isDue: Bool
    fileprivate let clock: C

    package mutating func next() async -> Void? { await next(isolation: nil) }

    /// - Returns: nil once the task is cancelled.
    package mutating func next(isolation actor: isolated (any Actor)?) async -> Void? {
      if isDue { isDue = false } else { await Pause.for(interval, on: clock) }
      return Task.isCancelled ? nil : ()
    }
  }
}

extension Periodic where C == ContinuousClock {
  package init(every interval: Duration, from beginning: Beginning = .atOnce) {
    self.init(every: interval, from: beginning, on: ContinuousClock())
  }
}
