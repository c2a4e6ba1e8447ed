/// Remembers what became of pushes, so that a repeated request reaches only the devices that failed (reference 12).
///
/// Two generations: the newer takes what comes; when it is full, or has lasted `life`, it becomes the older, and what
/// was the older is forgotten. So everything is remembered for `life` at least, unless there is too much of it.
package struct OutcomeMemory: Sendable {
  package enum Outcome: UInt8, Sendable {
    case served
    case rejected
  }

  /// Homeservers repeat for a day.
  package static let life = Duration.seconds(86_400)

  private let generationMax: Int
  private var newer: [PushIdentity: Outcome] = [:]
  private var older: [PushIdentity: Outcome] = [:]
  private var began: ContinuousClock.Instant

  /// - Parameter max: outcomes, 2 or more; each takes about 50 bytes.
  package init(max: Int, now: ContinuousClock.Instant) {
    generationMax = Swift.max(1, max / 2)
    began = now
  }

  package var count: Int { newer.count + older.count }

  package mutating func outcome(of push: PushIdentity, now: ContinuousClock.Instant) -> Outcome? {
    if now - began >= Self.life { turn(now) }
    return newer[push] ?? older[push]
  }

  package mutating func remember(_ outcome: Outcome, of push: PushIdentity, now: ContinuousClock.Instant) {
    if newer.count >= generationMax || now - began >= Self.life { turn(now) }
    newer[push] = outcome
  }

  private mutating func turn(_ now: ContinuousClock.Instant) {
    // After two lives without a word nothing is young enough.
    older = now - began < Self.life * 2 ? newer : [:]
    newer = [:]
    began = now
  }
}
