import Metrics
import RelayCore

/// What the operator sees of live delivery: never whose.
final class LiveMetrics: Sendable {
  private let deliveries = Counter(label: "relay_deliveries_total")
  private let acknowledgements = Counter(label: "relay_acknowledgements_total")
  private let refusals = Counter(label: "relay_delivery_refusals_total")
  private let keyless = Counter(label: "relay_connections_without_key_total")

  private let devices = Gauge(label: "relay_connections", dimensions: [("kind", "device")])
  private let provisionings = Gauge(label: "relay_connections", dimensions: [("kind", "provisioning")])

  private let local = LiveMetrics.wakeUps("local")
  private let remote = LiveMetrics.wakeUps("remote")
  private let absent = LiveMetrics.wakeUps("absent")
  private let unknown = LiveMetrics.wakeUps("unknown")
  private let dropped = LiveMetrics.wakeUps("dropped")
  private let stray = LiveMetrics.wakeUps("stray")

  init() {
    // Shown from the beginning, also where nobody ever connects.
    show(devices: 0)
    show(provisionings: 0)
  }

  /// Written to sockets, repetitions on later connections included.
  func delivered(_ count: Int) { deliveries.increment(by: count) }
  /// Removed, at the word of clients.
  func removed(_ count: Int) { acknowledgements.increment(by: count) }
  /// A client answered a delivery with another status than success.
  func refused() { refusals.increment() }
  /// A device connected whose signaling key cannot be used: nothing is delivered to it.
  func keylessOpened() { keyless.increment() }

  func show(devices count: Int) { devices.record(count) }
  func show(provisionings count: Int) { provisionings.record(count) }

  func wokenHere(_ count: Int) { local.increment(by: count) }
  func wakeUpsDropped(_ count: Int) { dropped.increment(by: count) }
  func strayed(_ count: Int) { stray.increment(by: count) }
  func woken(_ count: Int, _ outcome: WakeUpOutcome) {
    switch outcome {
    case .told(let missing):
      absent.increment(by: missing.count)
      remote.increment(by: max(0, count - missing.count))
    case .unknown: unknown.increment(by: count)
    }
  }

  /// - Parameter reason: nil when the client, or the transport, ended it.
  func ended(_ reason: EndReason?) {
    Counter(
      label: "relay_connections_closed_total", dimensions: [("reason", reason?.rawValue ?? "client")]
    ).increment()
  }

  private static func wakeUps(_ how: String) -> Counter {
    Counter(label: "relay_wakeups_total", dimensions: [("how", how)])
  }
}
