import Metrics
import Push
import RelayMetrics

/// The reference's metrics of requests to the providers, under its names (10).
final class GatewayLaneMetrics: Sendable {
  private let answers: StatusMetrics<Counter>
  private let requests: Timer
  private let queued: Timer
  private let active: Meter
  private let pending: Meter

  init(pushkin: String, of provider: RelayMetric.GatewayLane) {
    answers = StatusMetrics { provider.answers.counter(.pushkin(pushkin), .code($0)) }
    requests = provider.duration.timer()
    queued = provider.queued.timer()
    active = provider.active.meter()
    pending = provider.pending.meter()
  }

  func observe(_ event: PushLaneEvent) {
    switch event {
    case .queued: pending.increment()
    case .left: pending.decrement()
    case .started(let waited):
      pending.decrement()
      active.increment()
      queued.recordNanoseconds(Int64(waited / .nanoseconds(1)))
    case .answered(let outcome, let took):
      active.decrement()
      requests.recordNanoseconds(Int64(took / .nanoseconds(1)))
      if let status = outcome.status { answers[status].increment() }
    }
  }
}

extension PushOutcome {
  /// The HTTP status, where there was an answer.
  fileprivate var status: Int? {
    switch self {
    case .delivered, .several: 200
    case .dead(let reason, _), .refused(let reason), .temporary(let reason, _): reason.status
    }
  }
}
