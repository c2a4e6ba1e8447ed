import Metrics
package import RelayCore
import RelayMetrics

/// The metrics of wake-ups: never whose.
package final class WakeMetrics: Sendable {
  private let askedFor = RelayMetric.wakes.asked.counter(.message)
  private let swept = RelayMetric.wakes.asked.counter(.sweep)
  private let forgotten = RelayMetric.wakes.lost.counter()

  /// - Parameter providers: those that are configured: theirs are shown from the start.
  package init(providers: [WakeProvider]) {
    for provider in providers {
      for outcome in WakeAttempt.Outcome.allCases { _ = Self.ended(provider, outcome) }
    }
    show([], of: providers)
  }

  /// Devices with an id of a configured provider.
  func asked(_ count: Int) { askedFor.increment(by: count) }
  func foundBySweep(_ count: Int) { swept.increment(by: count) }
  /// Not written down, for want of room or of the store; what is stored for these devices is found by the sweep.
  func lost(_ count: Int) { forgotten.increment(by: count) }

  func sent(_ provider: WakeProvider, _ kind: WakeAttempt.Kind) {
    RelayMetric.wakes.sent.counter(.provider(provider.word), .kind(kind.rawValue)).increment()
  }
  func ended(_ attempt: WakeAttempt, of provider: WakeProvider) { Self.ended(provider, attempt.outcome).increment() }

  func show(_ queue: [WakeQueueUsage], of providers: [WakeProvider]) {
    for provider in providers {
      let usage = queue.first { $0.provider == provider }
      RelayMetric.wakes.waiting.gauge(.provider(provider.word)).record(usage?.count ?? 0)
      RelayMetric.wakes.oldest.gauge(.provider(provider.word)).record((usage?.oldest ?? .zero) / .seconds(1))
    }
  }

  private static func ended(_ provider: WakeProvider, _ outcome: WakeAttempt.Outcome) -> Counter {
    RelayMetric.wakes.attempts.counter(.provider(provider.word), .outcome(outcome.rawValue))
  }
}
