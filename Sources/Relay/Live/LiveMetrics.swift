import Metrics
import RelayCore
import RelayMetrics

/// The metrics of live delivery: never whose.
final class LiveMetrics: Sendable {
  private let deliveries = RelayMetric.live.deliveries.counter()
  private let unread = RelayMetric.live.unread.counter()
  private let acknowledgements = RelayMetric.live.acknowledgements.counter()
  private let refusals = RelayMetric.live.refusals.counter()
  private let full = RelayMetric.live.full.counter()
  private let keyless = RelayMetric.live.keyless.counter()

  private let devices = RelayMetric.live.connections.gauge(.device)
  private let provisionings = RelayMetric.live.connections.gauge(.provisioning)

  private let local = RelayMetric.live.wakeUps.counter(.local)
  private let remote = RelayMetric.live.wakeUps.counter(.remote)
  private let absent = RelayMetric.live.wakeUps.counter(.absent)
  private let unknown = RelayMetric.live.wakeUps.counter(.unknown)
  private let dropped = RelayMetric.live.wakeUps.counter(.dropped)
  private let stray = RelayMetric.live.wakeUps.counter(.stray)

  init() {
    // Shown from the beginning, also where nobody ever connects.
    show(devices: 0)
    show(provisionings: 0)
  }

  /// Written to sockets, repetitions on later connections included.
  func delivered(_ count: Int) { deliveries.increment(by: count) }
  /// The part of them that was not read from the store.
  func deliveredUnread(_ count: Int) { unread.increment(by: count) }
  /// Removed, at the word of clients.
  func removed(_ count: Int) { acknowledgements.increment(by: count) }
  /// A client answered a delivery with another status than success.
  func refused() { refusals.increment() }
  /// A device connected whose signaling key cannot be used: nothing is delivered to it.
  func keylessOpened() { keyless.increment() }
  /// A client has left so much unacknowledged that nothing more is sent on its connection.
  func heldTooMany() { full.increment() }

  func show(devices count: Int) { devices.record(count) }
  func show(provisionings count: Int) { provisionings.record(count) }

  func wokenHere(_ count: Int) { local.increment(by: count) }
  func wakeUpsDropped(_ count: Int) { dropped.increment(by: count) }
  func strayed(_ count: Int) { stray.increment(by: count) }
  func woken(_ count: Int, _ outcome: WakeUpOutcome) {
    absent.increment(by: outcome.absent.count)
    unknown.increment(by: outcome.unknown.count)
    remote.increment(by: max(0, count - outcome.absent.count - outcome.unknown.count))
  }

  /// - Parameter reason: nil when the client, or the transport, ended it.
  func ended(_ reason: EndReason?) {
    RelayMetric.live.closed.counter(.reason(reason?.rawValue ?? "client")).increment()
  }
}
