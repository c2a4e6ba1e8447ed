/// Charges leaky buckets, atomically across all processes.
package protocol RateLimiter: Sendable {
  /// Never throws: when the shared state is away, each process falls back to buckets of its own.
  /// - Parameters:
  ///   - amount: below 0 gives back what was charged.
  ///   - key: who is charged. It is hashed before it leaves the process.
  func take(_ amount: Double, from limiter: LimiterName, key: LimitKey) async -> LimitDecision

  /// Takes all of `charges`, at most `WireLimits.limitChargesMax` for different buckets, or none: atomically, in one
  /// round trip. Never throws, as `take`.
  /// - Returns: the longest wait of those that refuse.
  func take(_ charges: [LimitCharge]) async -> LimitDecision

  /// Takes each of `takes`, one charge at least, by itself and in their order, as `take` does; in one round trip where
  /// that is possible.
  /// - Returns: one decision for each.
  func take(each takes: [[LimitCharge]]) async -> [LimitDecision]

  /// The free space of a bucket just now, in charges: for showing it.
  func space(in limiter: LimiterName, key: LimitKey) async -> Double

  /// The size and rate of the buckets of `limiter`, as they are now.
  func shape(of limiter: LimiterName) -> Bucket
}

extension RateLimiter {
  package func take(each takes: [[LimitCharge]]) async -> [LimitDecision] {
    var decisions: [LimitDecision] = []
    for charges in takes { decisions.append(await take(charges)) }
    return decisions
  }

  /// Charges or refuses. - Throws: `.rateLimited` with the time to wait, if waiting helps.
  package func charge(_ limiter: LimiterName, _ key: LimitKey, amount: Double = 1) async throws(Problem) {
    switch await take(amount, from: limiter, key: key) {
    case .allowed: return
    case .refused(let retryAfter): throw Problem(.rateLimited, retryAfter: retryAfter)
    }
  }

  /// Charges all or refuses. - Throws: as the other `charge`.
  package func charge(_ charges: [LimitCharge]) async throws(Problem) {
    switch await take(charges) {
    case .allowed: return
    case .refused(let retryAfter): throw Problem(.rateLimited, retryAfter: retryAfter)
    }
  }

  /// Charges `limiter` for `count` messages, or for as many of them as the bucket can hold, within a factor of 2: what
  /// no wait makes possible would be refused forever.
  /// - Throws: `.rateLimited` as `charge`.
  package func chargeMessages(_ count: Int, _ key: LimitKey, to limiter: LimiterName = .messages) async throws(Problem)
  {
    var amount = Double(count)
    while true {
      switch await take(amount, from: limiter, key: key) {
      case .allowed: return
      case .refused(retryAfter: nil) where amount > 1: amount = (amount / 2).rounded(.up)
      case .refused(let retryAfter): throw Problem(.rateLimited, retryAfter: retryAfter)
      }
    }
  }
}
