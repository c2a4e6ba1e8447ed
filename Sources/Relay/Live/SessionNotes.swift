import Synchronization

/// The notes of the hub and the presence book about a session.
final class SessionNotes: Sendable {
  /// Whether shared state knows of it.
  let isNoted = Atomic(false)
  /// Whether its account could not be read when its credentials were to be looked at.
  let isUnchecked = Atomic(false)
  private let lastWoken = Mutex<ContinuousClock.Instant?>(nil)
  private let lastTold = Mutex<ContinuousClock.Instant?>(nil)

  /// This process woke it, and so nobody elsewhere.
  func woken(at now: ContinuousClock.Instant) { lastWoken.withLock { $0 = now } }

  /// Whether it was woken so lately that a newer connection of its device, elsewhere, may have missed it.
  func wasWokenLately(now: ContinuousClock.Instant) -> Bool {
    lastWoken.withLock { $0.map { now - $0 < Self.lately } ?? false }
  }

  /// It was told that something waits, by whomever.
  func told(at now: ContinuousClock.Instant) { lastTold.withLock { $0 = now } }

  /// Whether it was told so lately that a connection which has been dead since may have ended only now.
  func wasToldLately(now: ContinuousClock.Instant) -> Bool {
    lastTold.withLock { $0.map { now - $0 < Self.deadMax } ?? false }
  }

  /// Longer than a connection may be silent, as a rule.
  private static let deadMax = Duration.seconds(180)
  /// Longer than a newer connection can be unknown to the process of the older one.
  private static let lately = Duration.seconds(60)
}
