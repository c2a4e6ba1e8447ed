import Metrics
import Push
import RelayCore
import RelayMetrics
import Synchronization

/// The metrics of the gateway: the reference's names (10), and others that it lacks. Never a push key.
struct GatewayMetrics: Sendable {
  private let received = RelayMetric.gateway.received.counter()
  private let devices = RelayMetric.gateway.devices.counter()
  private let open = RelayMetric.gateway.inFlight.meter(.notify)
  private let answers = StatusMetrics { RelayMetric.gateway.answers.counter(.code($0)) }
  private let times = StatusMetrics { RelayMetric.gateway.duration.timer(.code($0)) }

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
  static func rejected(app: String, _ reason: PushReason) { count(RelayMetric.gateway.rejected, app, reason) }
  static func dropped(app: String, _ reason: PushReason) { count(RelayMetric.gateway.dropped, app, reason) }
  static func failed(app: String, _ reason: PushReason) { count(RelayMetric.gateway.failed, app, reason) }

  /// Reasons are words of the providers' tables, or ours; and what any server answers that a device names.
  private static func count(_ metric: CounterMetric<AppLabel, PushReasonLabel>, _ app: String, _ reason: PushReason) {
    let word = words.withLock { words in
      guard words[app]?.contains(reason.word) != true else { return reason.word }
      guard words[app, default: []].count < wordsMax else { return "other" }
      words[app, default: []].insert(reason.word)
      return reason.word
    }
    metric.counter(.app(app), .reason(word)).increment()
  }

  /// The reasons that were counted, by the entry's name. Each is a series.
  private static let words = Mutex<[String: Set<String>]>([:])
  private static let wordsMax = 64
}

/// The metrics of one entry.
struct GatewayAppMetrics: Sendable {
  private let name: String
  private let devices: Counter
  private let overloads: Counter
  private let repeats: Counter

  init(_ app: PushApp) {
    name = app.name
    devices = RelayMetric.gateway.appDevices.counter(.pushkin(app.name))
    overloads = RelayMetric.gateway.overloads.counter(.pushkin(app.name))
    repeats = RelayMetric.gateway.repeats.counter(.app(app.name))
  }

  func show(expires: Timestamp) {
    RelayMetric.gateway.certificateExpires.gauge(.pushkin(name)).record(expires.millis / 1000)
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
  /// Statuses come from any server that a device names, and each is a series.
  private let made = Mutex<[Int: Metric]>([:])
  private let make: @Sendable (Int) -> Metric
  /// More than are in use; others count as the first of their hundred.
  private static var statusesMax: Int { 64 }

  init(_ make: @escaping @Sendable (Int) -> Metric) { self.make = make }

  subscript(status: Int) -> Metric {
    made.withLock { made in
      let status = made.count < Self.statusesMax || made[status] != nil ? status : status / 100 * 100
      if let metric = made[status] { return metric }
      let metric = make(status)
      made[status] = metric
      return metric
    }
  }
}
