/// Pauses before connecting again: longer with each failure, and random, so that the clients of a relay that was
/// restarted do not come back all at once (docs/delivery.md, "Limits and close codes").
public struct Backoff: Sendable {
  private let first: Duration
  private let max: Duration
  private var failures = 0

  /// Begins without a failure.
  /// - Parameters:
  ///   - first: the longest first pause.
  ///   - max: the longest pause of all; less than `first` counts as `first`.
  public init(first: Duration = .seconds(1), max: Duration = .seconds(60)) {
    self.first = first
    self.max = Swift.max(first, max)
  }

  /// Counts a failure and draws the pause before the next try.
  /// - Returns: a random duration between zero and a bound. The bound doubles with each call, from `first` to `max`.
  public mutating func next() -> Duration {
    var generator = SystemRandomNumberGenerator()
    return next(using: &generator)
  }

  /// Forgets the failures, because a connection has worked: the next pause is a first one.
  public mutating func reset() { failures = 0 }

  package mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
    // The bound is never reached by doubling further than this, whatever `first` is.
    let bound = Swift.min(max, first * (1 << Swift.min(failures, 30)))
    failures += 1
    return bound * Double.random(in: 0...1, using: &generator)
  }
}
