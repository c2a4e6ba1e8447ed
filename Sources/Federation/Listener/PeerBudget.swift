import RelayCore

/// How much of one of its budgets a peer's request takes.
struct BudgetCharge: Sendable {
  let amount: Int
  let budget: LimiterName

  static let request = BudgetCharge(amount: 1, budget: .peerRequests)
  static func bytes(_ count: Int) -> BudgetCharge { BudgetCharge(amount: count, budget: .peerBytes) }
  static func recipients(_ count: Int) -> BudgetCharge { BudgetCharge(amount: count, budget: .peerRecipients) }
  static func preKeys(_ count: Int) -> BudgetCharge { BudgetCharge(amount: count, budget: .peerPreKeys) }
}

/// What each peer may still do here (docs/federation.md, "Budgets").
struct PeerBudget: Sendable {
  let limiter: any RateLimiter
  /// Shapes that differ from the defaults.
  let buckets: [LimiterName: Bucket]
  let refusals: PeerCounters
  private let charges = PeerCounters("relay_peer_charges_total", by: "budget")

  init(limiter: any RateLimiter, buckets: [LimiterName: Bucket], refusals: PeerCounters) {
    self.limiter = limiter
    self.buckets = buckets
    self.refusals = refusals
  }

  /// All budgets, in the order in which they are shown.
  static let names: [LimiterName] = [
    .peerRequests, .peerRecipients, .peerBytes, .peerPreKeys, .peerTokens, .peerProbes,
  ]

  /// Charges all or nothing.
  /// - Throws: `.budgetExceeded` with the time to wait.
  func charge(_ budget: [BudgetCharge], of peer: RelayName) async throws(Problem) {
    let charges = limitCharges(budget, of: peer)
    guard !charges.isEmpty else { return }
    switch await limiter.take(charges) {
    case .allowed: count(budget, of: peer)
    case .refused(let wait):
      refusals.add(of: peer, Problem.Kind.budgetExceeded.rawValue)
      throw Problem(.budgetExceeded, retryAfter: min(wait ?? Self.hopelessWait, Self.waitMax))
    }
  }

  /// Charges the peer's budget and a bucket of another limiter, in one round trip where both have room.
  /// - Throws: `.budgetExceeded` as the other `charge`; `.rateLimited` when it is the other bucket that has none, and the
  ///   budget is charged then.
  func charge(_ budget: [BudgetCharge], of peer: RelayName, and other: LimitCharge) async throws(Problem) {
    let all = limitCharges(budget, of: peer) + [other]
    guard await limiter.take(all) != .allowed else { return count(budget, of: peer) }
    // Which of them had no room decides about the answer.
    try await charge(budget, of: peer)
    do throws(Problem) {
      if other.limiter == .messages {
        try await limiter.chargeMessages(Int(other.amount), other.key)
      } else {
        try await limiter.charge(other.limiter, other.key, amount: other.amount)
      }
    } catch {
      refusals.add(of: peer, error.kind.rawValue)
      throw error
    }
  }

  /// Charges what has been given out already, as far as the budget has room for all of it.
  func note(_ budget: [BudgetCharge], of peer: RelayName) async {
    if await limiter.take(limitCharges(budget, of: peer)) == .allowed { count(budget, of: peer) }
  }

  func shape(_ budget: LimiterName) -> Bucket { buckets[budget] ?? budget.defaultBucket }

  /// What is asked for at once is charged in full or, if the bucket never holds as much, as a full bucket: else no wait
  /// would ever make it possible.
  private func limitCharges(_ budget: [BudgetCharge], of peer: RelayName) -> [LimitCharge] {
    budget.filter { $0.amount > 0 }.map {
      LimitCharge(min(Double($0.amount), shape($0.budget).size), from: $0.budget, key: LimitKey(peer))
    }
  }

  private func count(_ budget: [BudgetCharge], of peer: RelayName) {
    for charge in budget where charge.amount > 0 { charges.add(charge.amount, of: peer, charge.budget.rawValue) }
  }

  /// Each process's own buckets, which serve while Redis is away, hold less.
  private static let hopelessWait = Duration.seconds(60)
  private static let waitMax = Duration.seconds(3600)
}
