extension RateLimiter {
  /// Charges or refuses. - Throws: `.rateLimited` with the time to wait, if waiting helps.
  package func charge(_ limiter: LimiterName, _ key: LimitKey, amount: Double = 1) async throws(Problem) {
    switch await take(amount, from: limiter, key: key) {
    case .allowed: return
    case .refused(let retryAfter): throw Problem(.rateLimited, retryAfter: retryAfter)
    }
  }
}
