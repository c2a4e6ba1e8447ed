package import Logging
import Metrics
import RelayMetrics
import Synchronization

/// The counts of wrong codes and pins for the operator: never whose.
package final class WrongCodes: Sendable {
  package enum Subject: String, Sendable, CaseIterable { case registration, linking, pin }

  private struct State {
    var begun: ContinuousClock.Instant?
    var wrong = 0
    var paused = 0
    var isTold = false
  }

  private let counters: [Subject: Counter]
  private let pauses = RelayMetric.codes.numbersPaused.counter()
  private let logger: Logger
  private let now: @Sendable () -> ContinuousClock.Instant
  private let state = Mutex(State())

  package init(logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
    self.logger = logger
    self.now = now
    counters = Dictionary(
      uniqueKeysWithValues: Subject.allCases.map {
        ($0, RelayMetric.codes.wrong.counter(.of($0.rawValue)))
      })
  }

  /// - Parameter isPaused: whether the number has no tries left for strangers now.
  func note(_ subject: Subject, isPaused: Bool) {
    counters[subject]?.increment()
    if isPaused { pauses.increment() }
    guard let told = count(isPaused: isPaused) else { return }
    logger.warning(
      "codes are being guessed: see docs/operating.md, Wrong codes",
      metadata: ["wrong": "\(told.wrong)", "numbers-paused": "\(told.paused)"])
  }

  /// - Returns: what is to be told, at most once a minute: a number's tries are used up, or many codes were wrong.
  private func count(isPaused: Bool) -> (wrong: Int, paused: Int)? {
    let moment = now()
    return state.withLock { state in
      if state.begun.map({ moment - $0 >= Self.period }) ?? true {
        // Wrong codes behind the last line of a period are told with the next line.
        state = state.isTold ? State(begun: moment, wrong: state.wrong, paused: state.paused) : State(begun: moment)
      }
      state.wrong += 1
      state.paused += isPaused ? 1 : 0
      guard !state.isTold, state.paused > 0 || state.wrong >= Self.manyInAPeriod else { return nil }
      defer { (state.isTold, state.wrong, state.paused) = (true, 0, 0) }
      return (state.wrong, state.paused)
    }
  }

  private static let period = Duration.seconds(60)
  /// More than people mistype at one process within a minute.
  private static let manyInAPeriod = 30
}
