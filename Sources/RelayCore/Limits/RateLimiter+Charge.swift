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
