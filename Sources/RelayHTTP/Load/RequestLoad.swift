import CoreMetrics
package import Logging
package import RelayCore
import RelayMetrics
import Synchronization

/// The requests of one edge that are being answered, and whether there is room for one more. All of the edge's
/// connections share it.
///
/// A refusal costs next to nothing: it comes behind a request's head, before its body is read, its sender is known, or
/// a limit is charged. So a relay that is asked for several times what it can do goes on doing what it can.
package final class RequestLoad: Sendable {
  private struct State {
    var rule: OverloadRule
    var wasOverloaded = false
    /// Since the overload began.
    var refused = 0
  }

  private let state: Mutex<State>
  private let logger: Logger
  private let refusals = RelayMetric.requests.refused.counter()

  package convenience init(logger: Logger) { self.init(bounds: .init(), logger: logger) }

  init(bounds: OverloadRule.Bounds, now: ContinuousClock.Instant = .now, logger: Logger) {
    state = Mutex(State(rule: OverloadRule(bounds: bounds, now: now)))
    self.logger = logger
  }

  /// The refusal of a request that there is no room for.
  package static let refusal = Problem(.unavailable, retryAfter: .seconds(2))

  /// - Returns: whether a request whose head has come may go on. Nothing is counted before `began`.
  package func admits(now: ContinuousClock.Instant = .now) -> Bool {
    let (isAdmitted, news) = state.withLock { state in
      let isAdmitted = state.rule.admits(now: now)
      if !isAdmitted { state.refused += 1 }
      return (isAdmitted, Self.news(&state))
    }
    if !isAdmitted { refusals.increment() }
    tell(news)
    return isAdmitted
  }

  /// A request that was let in is whole: now it is the relay that works. `ended` follows exactly once.
  package func began() { state.withLock { $0.rule.began() } }

  /// It is answered, or its client is gone.
  package func ended(now: ContinuousClock.Instant = .now) {
    tell(
      state.withLock { state in
        state.rule.ended(now: now)
        return Self.news(&state)
      })
  }

  /// Whether no request is under way.
  package var isIdle: Bool { state.withLock { $0.rule.isIdle } }

  /// Runs `wait` of a request under way, which waits for a peer or a server of somebody else: that is not our load.
  package func elsewhere<Value, Failure: Error>(
    _ wait: () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    state.withLock { $0.rule.waitBegan() }
    defer {
      tell(
        state.withLock { state in
          state.rule.waitEnded(now: .now)
          return Self.news(&state)
        })
    }
    return try await wait()
  }

  private enum News {
    case began
    case ended(refused: Int)
  }

  private static func news(_ state: inout State) -> News? {
    guard state.rule.isOverloaded != state.wasOverloaded else { return nil }
    state.wasOverloaded.toggle()
    guard !state.wasOverloaded else { return .began }
    defer { state.refused = 0 }
    return .ended(refused: state.refused)
  }

  private func tell(_ news: News?) {
    switch news {
    case nil: break
    case .began: logger.warning("more requests come than can be answered: the surplus is refused")
    case .ended(let refused):
      logger.notice("all requests are answered again", metadata: ["refused": "\(refused)"])
    }
  }
}
