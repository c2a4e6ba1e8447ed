import Metrics
import RelayCore
import Synchronization

/// What the operator sees of the outboxes: never whose messages.
final class OutboxMetrics: Sendable {
  private let held = Counter(label: "relay_outbox_held_total")
  private let delivered = Counter(label: "relay_outbox_delivered_total")
  private let untold = Counter(label: "relay_outbox_untold_total")
  /// Peers with gauges above 0.
  private let shown = Mutex<Set<RelayName>>([])

  func messagesHeld(_ count: Int) { held.increment(by: count) }
  func messagesDelivered(_ count: Int) { delivered.increment(by: count) }
  /// Given up, and no device of the sender could be told.
  func sendersUntold(_ count: Int) { untold.increment(by: count) }

  func messagesGivenUp(_ count: Int, because reason: UndeliverableReason) {
    Counter(label: "relay_outbox_undeliverable_total", dimensions: [("reason", reason.rawValue)])
      .increment(by: count)
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
    let peer = [("peer", relay.text)]
    Gauge(label: "relay_outbox_messages", dimensions: peer).record(messages)
    Gauge(label: "relay_outbox_bytes", dimensions: peer).record(bytes)
    Gauge(label: "relay_outbox_oldest_seconds", dimensions: peer).record(oldestSeconds)
  }
}
