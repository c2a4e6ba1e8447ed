import Logging
import Metrics
import Synchronization

/// Whether Redis serves the limits and carries the signals: said in the log once a change, and in metrics.
final class RedisHealth: Sendable {
  /// One of the two services.
  private struct Service {
    enum Condition: Equatable {
      case connecting
      case served
      case away(reason: String)
    }
    var condition = Condition.connecting

    var fault: String? {
      switch condition {
      case .connecting: "connecting to Redis"
      case .served: nil
      case .away(let reason): reason
      }
    }

    /// - Returns: what it was, nil when it was the same kind of condition before.
    mutating func become(_ next: Condition) -> Condition? {
      let previous = condition
      condition = next
      switch (previous, next) {
      case (.served, .served), (.away, .away), (.connecting, .connecting): return nil
      default: return previous
      }
    }
  }

  private let limits = Mutex(Service())
  private let signals = Mutex(Service())
  private let logger: Logger
  private let available = Gauge(label: "relay_coordination_available")
  private let localDecisions = Counter(label: "relay_coordination_local_decisions_total")

  init(logger: Logger) {
    self.logger = logger
    available.record(0)
  }

  /// Of the limits first, then of the signals; nil when all is well.
  var fault: String? { limits.withLock(\.fault) ?? signals.withLock(\.fault) }

  /// Whether the first attempt to reach Redis is still under way.
  var isReachingForLimits: Bool { limits.withLock { $0.condition == .connecting } }

  func decidedLocally() { localDecisions.increment() }

  func limitsServed() {
    guard let previous = limits.withLock({ $0.become(.served) }) else { return }
    available.record(1)
    if previous != .connecting { logger.notice("Redis is back: it serves the limits again") }
  }

  func limitsAway(reason: String) {
    guard limits.withLock({ $0.become(.away(reason: reason)) }) != nil else { return }
    available.record(0)
    logger.warning("Redis is away: limits come from smaller buckets of this process", metadata: ["reason": "\(reason)"])
  }

  func signalsCarried() {
    guard let previous = signals.withLock({ $0.become(.served) }) else { return }
    if previous != .connecting { logger.notice("Redis is back: it carries the signals again") }
  }

  func signalsAway(reason: String) {
    guard signals.withLock({ $0.become(.away(reason: reason)) }) != nil else { return }
    logger.warning("Redis is away: changes that other processes make show late", metadata: ["reason": "\(reason)"])
  }
}
