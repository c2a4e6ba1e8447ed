import RelayWork

/// Remembers what became of pushes, so that a repeated request reaches only the devices that failed (reference 12).
///
/// Everything is remembered for `life` at least, unless there is too much of it.
package struct OutcomeMemory: Sendable {
  package enum Outcome: UInt8, Sendable {
    case served
    case rejected
  }

  /// Homeservers repeat for a day.
  package static let life = Duration.seconds(86_400)

  private var outcomes: AgedGenerations<PushIdentity, Outcome, ContinuousClock.Instant>

  /// - Parameter max: outcomes, 2 or more; each takes about 50 bytes.
  package init(max: Int, now: ContinuousClock.Instant) {
    outcomes = AgedGenerations(capacity: max, life: Self.life, began: now)
  }

  package var count: Int { outcomes.count }

  package mutating func outcome(of push: PushIdentity, now: ContinuousClock.Instant) -> Outcome? {
    outcomes.value(of: push, at: now)
  }

  package mutating func remember(_ outcome: Outcome, of push: PushIdentity, now: ContinuousClock.Instant) {
    outcomes.insert(outcome, for: push, at: now)
  }
}
