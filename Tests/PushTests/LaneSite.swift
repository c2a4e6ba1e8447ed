import RelayCore
import Synchronization
import TestSupport

@testable import Push

/// Time that stands still but where something waits: there it passes at once, and is written down.
final class SkippedTime: Sendable {
  private let start = ContinuousClock.now
  private let waits = Mutex<[Duration]>([])

  var waited: [Duration] { waits.withLock { $0 } }
  var now: ContinuousClock.Instant { start + waited.reduce(.zero, +) }
  func skip(_ duration: Duration) { waits.withLock { $0.append(duration) } }

  var time: PushTime {
    PushTime(now: { self.now }, sleep: { self.skip($0) })
  }
}

/// Remembers what a lane tells.
final class LaneEvents: Sendable {
  private let words = Mutex<[String]>([])
  var all: [String] { words.withLock { $0 } }

  func note(_ event: PushLaneEvent) {
    let word =
      switch event {
      case .queued: "queued"
      case .started: "started"
      case .left: "left"
      case .answered(let outcome, _): outcome.word
      }
    words.withLock { $0.append(word) }
  }
}

extension PushSite {
  func lane(
    _ provider: any PushProvider, _ kind: PushLaneName.Provider = .apns, limits: PushLaneLimits = PushLaneLimits(),
    retries: PushRetries = .apns, time: PushTime = .system, events: LaneEvents? = nil
  ) -> PushLane {
    let observe: (@Sendable (PushLaneEvent) -> Void)? =
      if let events {
        { events.note($0) }
      } else {
        nil
      }
    return PushLane(
      PushLaneName(kind, app: "com.example"), provider: provider, limits: limits, retries: retries, clock: clock.wall,
      logger: log.logger, time: time, observe: observe)
  }
}

extension PushLaneLimits {
  /// Attempts never end by the time that a slow machine takes.
  static func patient(workers: Int = 20, perDestination: Int = 20, held: Int = 10_000, bytes: Int = 64 << 20) -> Self {
    var limits = PushLaneLimits()
    limits.attemptTimeout = .seconds(120)
    limits.workersMax = workers
    limits.destinationWorkersMax = perDestination
    limits.heldMax = held
    limits.heldBytesMax = bytes
    return limits
  }
}
