import Metrics
import RelayCore
import Synchronization

/// What the operator sees of the pushes of one service: never to whom, never what.
final class NotificationMetrics: Sendable {
  private let service: NotificationService
  private let words = Mutex<Set<String>>([])
  /// Providers have a few dozens.
  private static let wordsMax = 64

  init(_ service: NotificationService) { self.service = service }

  func delivered() { count("delivered") }
  func keyDied() { count("dead") }
  func putOff() { count("put-off") }
  func dropped(_ word: String) { count("dropped", word) }

  private func count(_ outcome: String, _ word: String = "") {
    let shown = words.withLock { words in
      if words.contains(word) { return word }
      guard words.count < Self.wordsMax else { return "other" }
      words.insert(word)
      return word
    }
    Counter(
      label: "relay_notification_pushes_total",
      dimensions: [("service", service.rawValue), ("outcome", outcome), ("reason", shown)]
    ).increment()
  }
}

/// Of the requests and the events.
enum NotificationCounters {
  static func requested(_ method: String, result: String) {
    Counter(label: "relay_notification_requests_total", dimensions: [("method", method), ("result", result)])
      .increment()
  }
  static func eventPushed(_ outcome: String) {
    Counter(label: "relay_notification_event_pushes_total", dimensions: [("outcome", outcome)]).increment()
  }
  static func show(_ queue: NotificationQueue, at now: Timestamp) {
    let labels = [("service", queue.service.rawValue)]
    Gauge(label: "relay_notification_pushes_waiting", dimensions: labels).record(queue.waiting)
    let seconds = queue.oldest.map { Double(max(0, now.millis - $0.millis)) / 1000 } ?? 0
    Gauge(label: "relay_notification_pushes_oldest_seconds", dimensions: labels).record(seconds)
  }
}
