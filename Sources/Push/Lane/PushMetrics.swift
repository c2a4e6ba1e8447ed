import Metrics
import RelayCore
import Synchronization

/// What the operator sees of one lane: never whom it pushes to, never what.
final class PushMetrics: Sendable {
  private let name: PushLaneName
  private let labels: [(String, String)]
  private let seconds: Metrics.Timer
  private let held: Gauge
  private let halted: Gauge
  private let words = Mutex<Set<String>>([])
  /// Providers have a few dozens.
  private static let wordsMax = 64

  init(_ name: PushLaneName) {
    self.name = name
    labels = [("provider", name.provider.rawValue), ("app", name.app)]
    seconds = Metrics.Timer(label: "relay_push_seconds", dimensions: labels)
    held = Gauge(label: "relay_push_held", dimensions: labels)
    halted = Gauge(label: "relay_push_halted", dimensions: labels)
    held.record(0)
    halted.record(0)
  }

  /// One attempt, with what it took.
  func tried(_ outcome: PushOutcome, took: Duration) {
    seconds.recordNanoseconds(Int64(took / .nanoseconds(1)))
    Counter(
      label: "relay_push_attempts_total",
      dimensions: labels + [("outcome", outcome.word), ("reason", shown(outcome.reason))]
    ).increment()
  }

  /// One message, all its attempts together.
  func ended(_ outcome: PushOutcome) {
    Counter(label: "relay_push_total", dimensions: labels + [("outcome", outcome.word)]).increment()
  }

  func show(held count: Int) { held.record(count) }
  /// Destinations whose breaker is open.
  func show(halted count: Int) { halted.record(count) }
  func show(expires: Timestamp) {
    Gauge(label: "relay_push_credentials_expire_seconds", dimensions: labels).record(expires.millis / 1000)
  }

  /// The word, or `other` when there have been too many different ones: each is a series.
  private func shown(_ reason: PushReason?) -> String {
    guard let word = reason?.word else { return "" }
    return words.withLock { words in
      if words.contains(word) { return word }
      guard words.count < Self.wordsMax else { return "other" }
      words.insert(word)
      return word
    }
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
