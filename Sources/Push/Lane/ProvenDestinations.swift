/// The destinations of a lane that answered their last attempt: as many as may be, the last ones to answer.
package struct ProvenDestinations: Sendable {
  /// An answer proves a destination for that long.
  static let age = Duration.seconds(3600)

  private let max: Int
  private var answered: [String: ContinuousClock.Instant] = [:]

  package init(max: Int) { self.max = max }

  var count: Int { answered.count }

  package func destination(_ name: String, now: ContinuousClock.Instant) -> PushDestination {
    PushDestination(name, isProven: answered[name].map { now - $0 < Self.age } ?? false)
  }

  package mutating func ended(_ verdict: PushBreaker.Verdict, _ name: String, now: ContinuousClock.Instant) {
    switch verdict {
    case .answered:
      if answered[name] == nil, answered.count >= max, let oldest = answered.min(by: { $0.value < $1.value }) {
        answered[oldest.key] = nil
      }
      answered[name] = now
    case .failed: answered[name] = nil
    case .credentialsRefused, .nothing: break
    }
  }
}
