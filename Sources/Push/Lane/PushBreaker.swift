/// Whether pushes to one destination are worth a try. While they are not, they fail at once; after a pause one is let
/// through, and shows whether they are again.
package struct PushBreaker: Sendable, Equatable {
  package enum State: Sendable, Equatable {
    /// Pushes pass. Becomes `open` with the third failure in a row, at once when our credentials are refused.
    case closed(failures: Int)
    /// Pushes fail. Becomes `probing` with the first push after `until`, `closed` with the answer to one under way.
    case open(until: ContinuousClock.Instant, pause: Duration)
    /// One push is under way, the others fail. Becomes `closed` with an answer, `open` without.
    case probing(pause: Duration)
  }

  /// The result of an attempt, as far as it is about the destination.
  package enum Verdict: Sendable, Equatable {
    case answered
    case failed
    case credentialsRefused
    /// It did not come that far.
    case nothing
  }

  package enum Admission: Sendable, Equatable {
    case pass
    /// - Parameter left: until the next is let through.
    case halted(left: Duration)
  }

  package enum Change: Sendable, Equatable {
    case none
    case opened
    case closed
  }

  static let failuresMax = 3
  /// Doubled with every probe that fails.
  static let pauseMin = Duration.seconds(2)
  static let pauseMax = Duration.seconds(60)

  package private(set) var state = State.closed(failures: 0)

  package init() {}

  package var isOpen: Bool {
    if case .closed = state { false } else { true }
  }

  /// Whether a push would be let through now.
  package func admission(now: ContinuousClock.Instant) -> Admission {
    switch state {
    case .closed: .pass
    case .open(let until, _): now >= until ? .pass : .halted(left: until - now)
    case .probing: .halted(left: Self.pauseMin)
    }
  }

  /// A push is about to be sent. Its result must be told to `ended`.
  package mutating func admit(now: ContinuousClock.Instant) -> Admission {
    let admission = admission(now: now)
    if case .open(_, let pause) = state, admission == .pass { state = .probing(pause: pause) }
    return admission
  }

  package mutating func ended(_ verdict: Verdict, now: ContinuousClock.Instant) -> Change {
    switch (state, verdict) {
    case (.closed, .answered):
      state = .closed(failures: 0)
      return .none
    case (.closed(let failures), .failed) where failures + 1 < Self.failuresMax:
      state = .closed(failures: failures + 1)
      return .none
    case (.closed, .failed), (.closed, .credentialsRefused):
      state = .open(until: now + Self.pauseMin, pause: Self.pauseMin)
      return .opened
    case (.open, .answered), (.probing, .answered):
      state = .closed(failures: 0)
      return .closed
    case (.probing(let pause), .failed), (.probing(let pause), .credentialsRefused):
      let longer = min(pause * 2, Self.pauseMax)
      state = .open(until: now + longer, pause: longer)
      return .none
    case (.probing(let pause), .nothing):
      // The next one probes.
      state = .open(until: now, pause: pause)
      return .none
    case (.closed, .nothing), (.open, .failed), (.open, .credentialsRefused), (.open, .nothing): return .none
    }
  }
}

extension PushBreaker.Verdict {
  /// Reasons that more time might have prevented.
  private static let untimely: Set<PushReason> = [.timedOut, .tokenTimedOut, .unresolved]
  /// Reasons about a connection whose end was told already, or is neither side's fault.
  private static let harmless: Set<PushReason> = [.lostToo, .notTaken]

  /// - Parameter isRushed: whether so little time was given that its end says nothing.
  package init(_ outcome: PushOutcome, isRushed: Bool) {
    switch outcome {
    case .delivered, .several: self = .answered
    // Refused here, a message tells nothing of the service.
    case .dead(let reason, _): self = reason.status == nil ? .nothing : .answered
    case .refused(let reason), .temporary(let reason, _):
      switch reason.kind {
      case .target, .message, .quota: self = reason.status == nil ? .nothing : .answered
      case .credentials: self = .credentialsRefused
      case .server, .transport:
        let saysNothing = Self.harmless.contains(reason) || isRushed && Self.untimely.contains(reason)
        self = saysNothing ? .nothing : .failed
      case .local: self = .nothing
      }
    }
  }
}
