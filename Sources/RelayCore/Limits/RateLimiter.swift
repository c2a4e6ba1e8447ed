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

  /// Takes `charges` as `take` does and, once they are allowed, each of `further` by itself, in their order: in one
  /// round trip where that is possible. `further` are for other buckets than `charges`.
  /// - Parameter charges: one at least.
  func take(_ charges: [LimitCharge], thenEach further: [LimitCharge]) async -> ChainedDecision

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

  package func take(_ charges: [LimitCharge], thenEach further: [LimitCharge]) async -> ChainedDecision {
    let first = await take(charges)
    guard first == .allowed, !further.isEmpty else { return ChainedDecision(first, refusing: further.count) }
    return ChainedDecision(first, further: await take(each: further.map { [$0] }))
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

  /// Charges all or refuses, and then takes each of `further` by itself.
  /// - Returns: one decision for each of `further`.
  /// - Throws: as the other `charge`; nothing of `further` is taken then.
  package func charge(
    _ charges: [LimitCharge], thenEach further: [LimitCharge]
  ) async throws(Problem) -> [LimitDecision] {
    let decision = await take(charges, thenEach: further)
    if case .refused(let retryAfter) = decision.first { throw Problem(.rateLimited, retryAfter: retryAfter) }
    return decision.further
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
