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
