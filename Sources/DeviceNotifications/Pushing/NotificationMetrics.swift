import Metrics
import RelayCore
import RelayMetrics
import Synchronization

/// The metrics of one service's pushes: never to whom, never what.
final class NotificationMetrics: Sendable {
  private let service: NotificationService
  private let words = Mutex<Set<String>>([])
  /// Providers have a few dozens.
  private static let wordsMax = 64

  init(_ service: NotificationService) { self.service = service }

  func delivered() { count(.delivered) }
  func keyDied() { count(.dead) }
  func putOff() { count(.putOff) }
  func dropped(_ word: String) { count(.dropped, word) }

  private func count(_ outcome: NotificationOutcomeLabel, _ word: String = "") {
    let shown = words.withLock { words in
      if words.contains(word) { return word }
      guard words.count < Self.wordsMax else { return "other" }
      words.insert(word)
      return word
    }
    RelayMetric.notifications.pushes.counter(.service(service.rawValue), outcome, .reason(shown)).increment()
  }
}

/// The counters of requests and events.
enum NotificationCounters {
  static func requested(_ method: String, result: String) {
    RelayMetric.notifications.requests.counter(.method(method), .result(result)).increment()
  }
  static func eventPushed(_ outcome: EventOutcomeLabel) {
    RelayMetric.notifications.eventPushes.counter(outcome).increment()
  }
  static func show(_ queue: NotificationQueue, at now: Timestamp) {
    let service = NotificationServiceLabel.service(queue.service.rawValue)
    RelayMetric.notifications.waiting.gauge(service).record(queue.waiting)
    let seconds = queue.oldest.map { Double(max(0, now.millis - $0.millis)) / 1000 } ?? 0
    RelayMetric.notifications.oldest.gauge(service).record(seconds)
  }
}
