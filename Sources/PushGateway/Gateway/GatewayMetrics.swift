import Metrics
import Push
import RelayCore
import Synchronization

/// What the operator sees of the gateway: the reference's names (10), and what it lacks. Never a push key.
struct GatewayMetrics: Sendable {
  private static let resource = [("resource", "V1NotifyHandler")]
  private let received = Counter(label: "sygnal_notifications_received")
  private let devices = Counter(label: "sygnal_notifications_devices_received")
  private let open = Meter(label: "sygnal_requests_in_flight", dimensions: resource)
  private let answers = StatusMetrics { status in
    Counter(label: "sygnal_pushgateway_status_codes", dimensions: [("code", String(status))])
  }
  private let times = StatusMetrics { status in
    Timer(label: "sygnal_notify_time", dimensions: [("code", String(status))])
  }

  init() { open.set(0) }

  func began() { open.increment() }
  func ended() { open.decrement() }

  /// A body that was understood.
  func received(devices count: Int) {
    received.increment()
    devices.increment(by: count)
  }

  /// Every answer of the endpoint.
  func answered(_ status: Int) { answers[status].increment() }

  /// A request that reached the devices.
  func dispatched(_ status: Int, took: Duration) {
    times[status].recordNanoseconds(Int64(took / .nanoseconds(1)))
  }

  /// - Parameter app: the entry's name; `none` where there is none.
  static func rejected(app: String, _ reason: PushReason) { count("rejected", app, reason) }
  static func dropped(app: String, _ reason: PushReason) { count("dropped", app, reason) }
  static func failed(app: String, _ reason: PushReason) { count("failed", app, reason) }

  /// Reasons are words of the providers' tables, or ours.
  private static func count(_ what: String, _ app: String, _ reason: PushReason) {
    Counter(label: "relay_push_gateway_\(what)_total", dimensions: [("app", app), ("reason", reason.word)]).increment()
  }
}

/// Of one entry.
struct GatewayAppMetrics: Sendable {
  private let name: String
  private let devices: Counter
  private let overloads: Counter
  private let repeats: Counter

  init(_ app: PushApp) {
    name = app.name
    let pushkin = [("pushkin", app.name)]
    devices = Counter(label: "sygnal_per_pushkin_type", dimensions: pushkin)
    overloads = Counter(label: "sygnal_inflight_request_limit_drop", dimensions: pushkin)
    repeats = Counter(label: "relay_push_gateway_repeats_total", dimensions: [("app", app.name)])
  }

  func show(expires: Timestamp) {
    Gauge(label: "sygnal_client_cert_expiry", dimensions: [("pushkin", name)]).record(expires.millis / 1000)
  }

  func received() { devices.increment() }
  func overloaded() { overloads.increment() }
  /// A push that was not sent again.
  func repeated() { repeats.increment() }

  func ended(_ outcome: DeviceOutcome) {
    switch outcome {
    case .served: break
    case .dropped(let reason): GatewayMetrics.dropped(app: name, reason)
    case .rejected(let reason): GatewayMetrics.rejected(app: name, reason)
    case .failed(let reason, _): GatewayMetrics.failed(app: name, reason)
    }
  }
}

/// One metric for each HTTP status, made once and kept.
final class StatusMetrics<Metric: Sendable>: Sendable {
  /// Bounded by the statuses there are: three digits.
  private let made = Mutex<[Int: Metric]>([:])
  private let make: @Sendable (Int) -> Metric

  init(_ make: @escaping @Sendable (Int) -> Metric) { self.make = make }

  subscript(status: Int) -> Metric {
    made.withLock { made in
      if let metric = made[status] { return metric }
      let metric = make(status)
      made[status] = metric
      return metric
    }
  }
}
