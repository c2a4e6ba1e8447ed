import Logging
import Metrics
import RelayMetrics
import Synchronization

/// Whether Redis serves the limits and carries the signals: said in the log once a change, and in metrics.
final class RedisHealth: Sendable {
  /// One of the two services.
  private struct Service {
    enum Condition: Equatable {
      case connecting
      case served
      /// Connected, but Redis answers commands with errors.
      case refused(reason: String)
      case away(reason: String)
    }
    var condition = Condition.connecting
    /// When it was refused last.
    var refused = ContinuousClock.now

    var fault: String? {
      switch condition {
      case .connecting: "connecting to Redis"
      case .served: nil
      case .away(let reason), .refused(let reason): reason
      }
    }

    /// - Returns: what it was, nil when it was the same kind of condition before.
    mutating func become(_ next: Condition) -> Condition? {
      let previous = condition
      condition = next
      switch (previous, next) {
      case (.served, .served), (.away, .away), (.refused, .refused), (.connecting, .connecting): return nil
      default: return previous
      }
    }
  }

  /// The fault of the configuration that prevented the connection, as it was last said.
  private let refusal = Mutex<String?>(nil)
  private let limits = Mutex(Service())
  private let signals = Mutex(Service())
  private let logger: Logger
  /// Without a refusal for so long it serves again: some commands may be refused, and others not.
  private let settling: Duration
  private let available = RelayMetric.coordination.available.gauge()
  private let localDecisions = RelayMetric.coordination.localDecisions.counter()

  init(logger: Logger, settling: Duration = .seconds(5)) {
    self.logger = logger
    self.settling = settling
    available.record(0)
  }

  /// The fault of the limits, or else of the signals; nil when all is well.
  var fault: String? { limits.withLock(\.fault) ?? signals.withLock(\.fault) }

  /// Whether Redis decides on limits, as far as is known.
  var servesLimits: Bool { limits.withLock { $0.condition == .served } }

  /// Whether the first attempt to reach Redis is still under way.
  var isReachingForLimits: Bool { limits.withLock { $0.condition == .connecting } }

  func decidedLocally() { localDecisions.increment() }

  /// The connection stands.
  func limitsServed() { limits.withLock { servedAgain(since: $0.become(.served)) } }

  /// - Returns: what `read` makes of the reply; nil also where there is none.
  func judged<Answer>(_ reply: RedisReply?, _ read: (RedisReply) -> Answer?) -> Answer? {
    // Without any reply the connection is away or about to be, and says so itself.
    guard let reply else { return nil }
    if let answer = read(reply) {
      limitsAnswered()
      return answer
    }
    switch reply {
    case .error(let code): limitsRefused(reason: "Redis answered \(code)")
    case .elsewhere:
      limitsRefused(reason: "Redis is a node of a cluster (MOVED): coordination.url must begin with redis+cluster")
    default: break
    }
    return nil
  }

  /// A command was answered as it should be. Says nothing about the connection: the caller may learn of an answer after
  /// the connection that brought it was lost.
  func limitsAnswered() {
    limits.withLock { service in
      guard case .refused = service.condition, .now >= service.refused + settling else { return }
      servedAgain(since: service.become(.served))
    }
  }

  /// A command was answered with an error on a connection that stands.
  func limitsRefused(reason: String) {
    limits.withLock { service in
      service.refused = .now
      if case .served = service.condition { awayNow(since: service.become(.refused(reason: reason)), reason: reason) }
    }
  }

  /// The connection was lost, or cannot be made.
  /// - Parameter isRefusal: the operator has to mend it. It is said also in the midst of an outage, once.
  func limitsAway(reason: String, isRefusal: Bool = false) {
    limits.withLock { awayNow(since: $0.become(.away(reason: reason)), reason: reason) }
    guard isRefusal, refusal.withLock({ $0.replace(with: reason) }) else { return }
    logger.warning("Redis cannot be used as it is configured", metadata: ["reason": "\(reason)"])
  }

  private func servedAgain(since previous: Service.Condition?) {
    guard let previous else { return }
    available.record(1)
    refusal.withLock { $0 = nil }
    if previous != .connecting { logger.notice("Redis is back: it serves the limits again") }
  }

  private func awayNow(since previous: Service.Condition?, reason: String) {
    switch previous {
    case .connecting, .served: break
    case nil, .refused, .away: return
    }
    available.record(0)
    logger.warning("Redis is away: limits come from smaller buckets of this process", metadata: ["reason": "\(reason)"])
  }

  func signalsCarried() {
    guard let previous = signals.withLock({ $0.become(.served) }) else { return }
    if previous != .connecting { logger.notice("Redis is back: it carries the signals again") }
  }

  func signalsAway(reason: String) {
    guard signals.withLock({ $0.become(.away(reason: reason)) }) != nil else { return }
    logger.warning(
      "Redis is away: changes that other processes make show late, and so does what they store for devices connected here",
      metadata: ["reason": "\(reason)"])
  }
}

extension String? {
  /// - Returns: whether it was another one.
  fileprivate mutating func replace(with next: String) -> Bool {
    defer { self = next }
    return self != next
  }
}
