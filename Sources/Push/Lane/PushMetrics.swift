import Metrics
import RelayCore
import RelayMetrics
import Synchronization

/// The metrics of one lane: never whom it pushes to, never what.
final class PushMetrics: Sendable {
  private struct Attempt: Hashable {
    let outcome: String
    let reason: String
  }
  /// Made once and kept: the registry has one lock for all.
  private struct Counters {
    var attempts: [Attempt: Counter] = [:]
    var ended: [String: Counter] = [:]
    /// Reasons so far.
    var words: Set<String> = []

    /// The word, or `other` when there have been too many different ones: each is a series.
    mutating func shown(_ reason: PushReason?) -> String {
      guard let word = reason?.word else { return "" }
      if words.contains(word) { return word }
      guard words.count < PushMetrics.wordsMax else { return "other" }
      words.insert(word)
      return word
    }
  }

  private let provider: PushProviderLabel
  private let app: AppLabel
  private let seconds: Metrics.Timer
  private let held: Gauge
  private let halted: Gauge
  private let counters = Mutex(Counters())
  /// Providers have a few dozens.
  private static let wordsMax = 64

  init(_ name: PushLaneName) {
    (provider, app) = (.provider(name.provider.rawValue), .app(name.app))
    seconds = RelayMetric.push.duration.timer(provider, app)
    held = RelayMetric.push.held.gauge(provider, app)
    halted = RelayMetric.push.halted.gauge(provider, app)
    held.record(0)
    halted.record(0)
  }

  /// One attempt, with what it took.
  func tried(_ outcome: PushOutcome, took: Duration) {
    seconds.recordNanoseconds(Int64(took / .nanoseconds(1)))
    let word = outcome.word
    let counter = counters.withLock { counters -> Counter in
      let attempt = Attempt(outcome: word, reason: counters.shown(outcome.reason))
      if let counter = counters.attempts[attempt] { return counter }
      let counter = RelayMetric.push.attempts.counter(provider, app, .outcome(word), .reason(attempt.reason))
      counters.attempts[attempt] = counter
      return counter
    }
    counter.increment()
  }

  /// One message, all its attempts together.
  func ended(_ outcome: PushOutcome) {
    let word = outcome.word
    let counter = counters.withLock { counters -> Counter in
      if let counter = counters.ended[word] { return counter }
      let counter = RelayMetric.push.ended.counter(provider, app, .outcome(word))
      counters.ended[word] = counter
      return counter
    }
    counter.increment()
  }

  func show(held count: Int) { held.record(count) }
  /// Destinations whose breaker is open.
  func show(halted count: Int) { halted.record(count) }
  func show(expires: Timestamp) {
    RelayMetric.push.credentialsExpire.gauge(provider, app).record(expires.millis / 1000)
  }
}

extension PushOutcome {
  /// One word, for metrics and logs.
  package var word: String {
    switch self {
    case .delivered: "delivered"
    case .dead: "dead"
    case .refused: "refused"
    case .temporary: "temporary"
    case .several: "several"
    }
  }

  /// nil for what was delivered, and for `several`.
  package var reason: PushReason? {
    switch self {
    case .delivered, .several: nil
    case .dead(let reason, _), .refused(let reason), .temporary(let reason, _): reason
    }
  }
}
