/// The breakers of a lane's destinations, of those whose last attempt failed: as many as may be, and none that nobody
/// has asked for in a while.
package struct PushBreakers: Sendable {
  /// Far beyond any pause of a breaker.
  static let idleMax = Duration.seconds(600)
  private static let sweepPause = Duration.seconds(60)

  private struct Kept: Sendable {
    var breaker: PushBreaker
    var used: ContinuousClock.Instant
  }

  private let max: Int
  private var kept: [String: Kept] = [:]
  private var swept: ContinuousClock.Instant?

  /// - Parameter max: the one that was not asked for the longest goes for another.
  package init(max: Int) { self.max = max }

  var count: Int { kept.count }
  /// Destinations that are spared.
  package var openCount: Int { kept.values.count { $0.breaker.isOpen } }

  /// Whether a push to `destination` would be let through now.
  package mutating func admission(_ destination: String, now: ContinuousClock.Instant) -> PushBreaker.Admission {
    kept[destination]?.used = now
    return kept[destination]?.breaker.admission(now: now) ?? .pass
  }

  /// A push to `destination` is about to be sent. Its result must be told to `ended`.
  package mutating func admit(_ destination: String, now: ContinuousClock.Instant) -> PushBreaker.Admission {
    kept[destination]?.used = now
    return kept[destination]?.breaker.admit(now: now) ?? .pass
  }

  package mutating func ended(
    _ verdict: PushBreaker.Verdict, _ destination: String, now: ContinuousClock.Instant
  ) -> PushBreaker.Change {
    var breaker = kept[destination]?.breaker ?? PushBreaker()
    let change = breaker.ended(verdict, now: now)
    guard breaker != PushBreaker() else {
      kept[destination] = nil
      return change
    }
    if kept[destination] == nil { makeRoom(now) }
    kept[destination] = Kept(breaker: breaker, used: now)
    return change
  }

  /// Forgets those that nobody has asked for in a while; looks for them once a minute at most.
  mutating func sweep(now: ContinuousClock.Instant) {
    if let swept, now - swept < Self.sweepPause { return }
    swept = now
    kept = kept.filter { now - $0.value.used < Self.idleMax }
  }

  private mutating func makeRoom(_ now: ContinuousClock.Instant) {
    sweep(now: now)
    guard kept.count >= max, let oldest = kept.min(by: { $0.value.used < $1.value.used }) else { return }
    kept[oldest.key] = nil
  }
}
