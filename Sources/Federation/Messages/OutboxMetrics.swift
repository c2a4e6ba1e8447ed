import Metrics
import RelayCore
import RelayMetrics
import Synchronization

/// The figures of the outboxes for the operator: never whose messages.
final class OutboxMetrics: Sendable {
  private let held = RelayMetric.outbox.held.counter()
  private let delivered = RelayMetric.outbox.delivered.counter()
  private let untold = RelayMetric.outbox.untold.counter()
  /// Peers with gauges above 0.
  private let shown = Mutex<Set<RelayName>>([])

  func messagesHeld(_ count: Int) { held.increment(by: count) }
  func messagesDelivered(_ count: Int) { delivered.increment(by: count) }
  /// Given up, and no device of the sender could be told.
  func sendersUntold(_ count: Int) { untold.increment(by: count) }

  func messagesGivenUp(_ count: Int, because reason: UndeliverableReason) {
    RelayMetric.outbox.undeliverable.counter(.reason(reason.rawValue)).increment(by: count)
  }

  /// Peers that are not in `usage` any more show 0.
  func show(_ usage: [OutboxUsage], at now: Timestamp) {
    for entry in usage {
      let age = Double(max(0, now.millis - entry.oldest.millis)) / 1000
      record(entry.relay, messages: entry.messages, bytes: entry.bytes, oldestSeconds: age)
    }
    let names = Set(usage.map(\.relay))
    let gone = shown.withLock { shown in
      defer { shown = names }
      return shown.subtracting(names)
    }
    for relay in gone { record(relay, messages: 0, bytes: 0, oldestSeconds: 0) }
  }

  private func record(_ relay: RelayName, messages: Int, bytes: Int64, oldestSeconds: Double) {
    let peer = PeerLabel.peer(relay.text)
    RelayMetric.outbox.messages.gauge(peer).record(messages)
    RelayMetric.outbox.bytes.gauge(peer).record(bytes)
    RelayMetric.outbox.oldest.gauge(peer).record(oldestSeconds)
  }
}
