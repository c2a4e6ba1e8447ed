package import RelayCore

/// Decides about a held message, by its peer's answer and by its age.
package struct OutboxPolicy: Sendable {
  package enum Action: Equatable {
    /// The peer has it.
    case delivered
    /// It can never be delivered: its sender is told.
    case giveUp(UndeliverableReason)
    /// It may be delivered later.
    case putOff(Duration)
  }

  /// A message older than this is given up, whether the peer was asked or not.
  package let age: Duration

  package init(age: Duration) { self.age = age }

  /// - Parameter attempts: those before this one.
  package func action(after answer: HandOverAnswer, attempts: Int) -> Action {
    switch answer.verdict {
    case .accepted: .delivered
    case .unknown: .giveUp(.notFound)
    case .otherDevices: .giveUp(.devices)
    case .refused: .giveUp(.refused)
    case .later, .unserved: .putOff(Self.pause(after: attempts, answer))
    }
  }

  package func isTooOld(_ accepted: Timestamp, at now: Timestamp) -> Bool { accepted.adding(age) <= now }

  /// Whether it was accepted by a clock that was ahead: it says nothing of those behind it.
  func isFromAhead(_ accepted: Timestamp, at now: Timestamp) -> Bool { accepted > now.adding(Self.skew) }
  private static let skew = Duration.seconds(300)

  /// Whether a sender that has no room for the word of it is waited for no longer.
  func isPastTelling(_ accepted: Timestamp, at now: Timestamp) -> Bool {
    accepted.adding(age).adding(Self.tellingMax) <= now
  }

  /// How long after its time a message stays held whose sender cannot be told.
  static let tellingMax = Duration.seconds(86_400)
  /// How long until such a sender is tried again.
  static let untoldPause = Duration.seconds(300)

  /// The peer's `Retry-After`, or 5 s that double with each attempt; 5 min at most.
  private static func pause(after attempts: Int, _ answer: HandOverAnswer) -> Duration {
    if let seconds = answer.retryAfterSeconds { return .seconds(min(max(seconds, 1), pauseMaxSeconds)) }
    // Seven doublings pass the most; more would overflow at some time.
    return .seconds(min(5 << min(max(attempts, 0), 7), pauseMaxSeconds))
  }

  private static let pauseMaxSeconds = 300

  /// Whether a next attempt may be made now. One that is far further away than any pause was put off by a clock that
  /// was ahead.
  package static func isDue(_ attempt: Timestamp, at now: Timestamp) -> Bool {
    attempt <= now || attempt > now.adding(.seconds(2 * pauseMaxSeconds))
  }
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
