import RelayCore

/// What becomes of a held message, by what its peer answered and by its age.
struct OutboxPolicy: Sendable {
  enum Action: Equatable {
    /// The peer has it.
    case delivered
    /// It can never be delivered: its sender is told.
    case giveUp(UndeliverableReason)
    /// It may be delivered later.
    case putOff(Duration)
  }

  /// What is older is given up, asked or not.
  let age: Duration

  /// - Parameter attempts: those before this one.
  func action(after answer: HandOverAnswer, attempts: Int) -> Action {
    switch answer.status {
    case 403 where answer.isSourceRefused: .giveUp(.refused)
    case 200...299: .delivered
    case 404: .giveUp(.notFound)
    case 409, 410: .giveUp(.devices)
    // Our credentials or the peering: our operator can mend it, so that nothing is given up for it.
    case 401, 403: .putOff(Self.pause(after: attempts, answer))
    // Too slow, too early, too much.
    case 408, 413, 425, 429: .putOff(Self.pause(after: attempts, answer))
    case 400...499: .giveUp(.refused)
    default: .putOff(Self.pause(after: attempts, answer))
    }
  }

  func isTooOld(_ accepted: Timestamp, at now: Timestamp) -> Bool { accepted.adding(age) <= now }

  /// The peer's `Retry-After`, or 5 s that double with each attempt; 5 min at most.
  private static func pause(after attempts: Int, _ answer: HandOverAnswer) -> Duration {
    if let seconds = answer.retryAfterSeconds { return .seconds(min(max(seconds, 1), pauseMaxSeconds)) }
    // Seven doublings pass the most; more would overflow at some time.
    return .seconds(min(5 << min(max(attempts, 0), 7), pauseMaxSeconds))
  }

  private static let pauseMaxSeconds = 300
}

/// Why a message was given up, in one word for metrics.
package enum UndeliverableReason: String, Sendable, CaseIterable {
  /// It waited for as long as `federation.outbox.hours` allows.
  case expired
  /// The peer has no such active account.
  case notFound = "not-found"
  /// The account's devices have changed since.
  case devices
  /// The peer will not take it as it is.
  case refused
  /// The operator dropped it.
  case dropped
}
