import Synchronization

/// Tells one reader that there may be something to do:
///
///     for await _ in nudge { await look() }
///
/// Any number of calls between two looks is one. A call while nobody reads is not lost: the next look comes at once.
/// The loop ends when its task is cancelled.
package struct Nudge: AsyncSequence, Sendable {
  package typealias Element = Void
  package typealias Failure = Never

  private let stream: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  /// - Parameter isDue: whether there is a first look without a call.
  package init(isDue: Bool = false) {
    (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    if isDue { wake() }
  }

  package func wake() { continuation.yield() }

  /// Wakes every so often until the task is cancelled, also while the reader is at work.
  package func wake(every interval: Duration, from beginning: Periodic<ContinuousClock>.Beginning = .atOnce) async {
    for await _ in Periodic(every: interval, from: beginning) { wake() }
  }

  package func makeAsyncIterator() -> AsyncStream<Void>.Iterator { stream.makeAsyncIterator() }
}

/// Several readers that are told together.
package final class NudgeGroup: Sendable {
  private let members = Mutex<[Nudge]>([])

  package init() {}

  /// - Parameter nudge: stays a member for the group's life.
  package func add(_ nudge: Nudge) { members.withLock { $0.append(nudge) } }

  package func wake() { for nudge in members.withLock({ $0 }) { nudge.wake() } }
}
