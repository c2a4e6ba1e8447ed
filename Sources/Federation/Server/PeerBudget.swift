import RelayCore
import RelayMetrics
import Synchronization

/// How much of one of its budgets a peer's request takes.
struct BudgetCharge: Sendable {
  let amount: Int
  let budget: LimiterName

  static let request = BudgetCharge(amount: 1, budget: .peerRequests)
  static func bytes(_ count: Int) -> BudgetCharge { BudgetCharge(amount: count, budget: .peerBytes) }
  static func recipients(_ count: Int) -> BudgetCharge { BudgetCharge(amount: count, budget: .peerRecipients) }
  static let receipt = BudgetCharge(amount: 1, budget: .peerReceipts)
  static let probe = BudgetCharge(amount: 1, budget: .peerProbes)
  static func preKeys(_ count: Int) -> BudgetCharge { BudgetCharge(amount: count, budget: .peerPreKeys) }
}

/// The budgets of each peer at this relay (docs/federation.md, "Budgets").
final class PeerBudget: Sendable {
  let limiter: any RateLimiter
  let refusals: PeerCounters
  private let charges = PeerCounters(RelayMetric.peerEdge.charges)
  private let shortages = Mutex(BudgetShortages())

  init(limiter: any RateLimiter, refusals: PeerCounters) {
    self.limiter = limiter
    self.refusals = refusals
  }

  /// All budgets, in the order in which they are shown.
  static let names: [LimiterName] = [
    .peerRequests, .peerRecipients, .peerReceipts, .peerBytes, .peerPreKeys, .peerTokens, .peerProbes,
  ]

  /// Charges all or nothing.
  /// - Throws: `.budgetExceeded` with the time to wait.
  func charge(_ budget: [BudgetCharge], of peer: RelayName) async throws(Problem) {
    try demandRoom(for: budget, of: peer)
    let charges = limitCharges(budget, of: peer)
    guard !charges.isEmpty else { return }
    switch await limiter.take(charges) {
    case .allowed: count(budget, of: peer)
    case .refused(let wait):
      await remember(budget, of: peer)
      throw refusal(of: peer, wait)
    }
  }

  /// - Parameter bytes: of a body; nil when its length is not known.
  /// - Throws: `.budgetExceeded` when a charge lately showed that there is no room for a request with such a body.
  func demandRoom(for bytes: Int?, of peer: RelayName) throws(Problem) {
    let now = ContinuousClock.now
    let wait = shortages.withLock { shortages in
      shortages.wait(for: 1, of: .peerRequests, peer, at: now)
        ?? shortages.wait(for: bytes, of: .peerBytes, peer, at: now)
    }
    if let wait { throw refusal(of: peer, wait) }
  }

  /// - Throws: `.budgetExceeded` when a charge lately showed that there is no room for these: a flood beyond a budget
  ///   costs no more than its heads.
  func demandRoom(for budget: [BudgetCharge], of peer: RelayName) throws(Problem) {
    let now = ContinuousClock.now
    let wait = shortages.withLock { shortages in
      budget.compactMap { shortages.wait(for: $0.amount, of: $0.budget, peer, at: now) }.max()
    }
    if let wait { throw refusal(of: peer, wait) }
  }

  /// Which of the budgets had no room that are asked for ahead of their charge.
  private func remember(_ budget: [BudgetCharge], of peer: RelayName) async {
    for charge in limitCharges(budget, of: peer)
    where [.peerRequests, .peerBytes, .peerPreKeys].contains(charge.limiter) {
      let space = await limiter.space(in: charge.limiter, key: charge.key)
      guard space < charge.amount,
        let wait = LeakyBucket.wait(for: charge.amount, available: space, in: limiter.shape(of: charge.limiter))
      else { continue }
      shortages.withLock {
        $0.refused(Int(charge.amount), of: charge.limiter, peer, wait: wait, at: .now)
      }
    }
  }

  private func refusal(of peer: RelayName, _ wait: Duration?) -> Problem {
    refusals.add(of: peer, Problem.Kind.budgetExceeded.rawValue)
    return Problem(.budgetExceeded, retryAfter: min(wait ?? Self.hopelessWait, Self.waitMax))
  }

  /// Charges the peer's budget and a bucket of another limiter, and behind these `further`, each by itself: in one
  /// round trip where both have room.
  /// - Returns: a decision for each of `further`.
  /// - Throws: `.budgetExceeded` as the other `charge`; `.rateLimited` when it is the other bucket that has none, and
  ///   the budget is charged then. Nothing of `further` is charged.
  @discardableResult
  func charge(
    _ budget: [BudgetCharge], of peer: RelayName, and other: LimitCharge, thenEach further: [LimitCharge] = []
  ) async throws(Problem) -> [LimitDecision] {
    try demandRoom(for: budget, of: peer)
    let decision = await limiter.take(limitCharges(budget, of: peer) + [other], thenEach: further)
    if decision.first == .allowed {
      count(budget, of: peer)
      return decision.further
    }
    // Which of them had no room decides about the answer.
    try await charge(budget, of: peer)
    do throws(Problem) {
      switch other.limiter {
      case .messages, .messagesWaited:
        try await limiter.chargeMessages(Int(other.amount), other.key, to: other.limiter)
      default: try await limiter.charge(other.limiter, other.key, amount: other.amount)
      }
    } catch {
      refusals.add(of: peer, error.kind.rawValue)
      throw error
    }
    // There is room by now.
    return await limiter.take(each: further.map { [$0] })
  }

  /// As `charge(_:of:and:)` of many hand-overs, in one round trip for all that have room.
  /// - Returns: of each whether it is charged; nothing is charged of the others.
  func chargeAtOnce(_ handOvers: [(budget: [BudgetCharge], other: LimitCharge)], of peer: RelayName) async -> [Bool] {
    let decisions = await limiter.take(each: handOvers.map { limitCharges($0.budget, of: peer) + [$0.other] })
    return zip(handOvers, decisions).map { handOver, decision in
      guard decision == .allowed else { return false }
      count(handOver.budget, of: peer)
      return true
    }
  }

  /// Charges a relay that is no peer, and proved `fingerprint` alone, for its try to become one: a twentieth of what a
  /// peer may ask for, so that 20 tries at once are possible.
  /// - Throws: `.budgetExceeded`, as `charge`.
  func chargeStranger(_ fingerprint: [UInt8]) async throws(Problem) {
    let amount = limiter.shape(of: .peerRequests).size / Self.strangersTries
    let key = LimitKey(authority: fingerprint.hex)
    guard case .refused(let wait) = await limiter.take(amount, from: .peerRequests, key: key) else { return }
    throw Problem(.budgetExceeded, retryAfter: min(wait ?? Self.hopelessWait, Self.waitMax))
  }

  /// A request for several things at once is charged in full, or as a full bucket if the bucket never holds that
  /// much. Otherwise no wait would ever make the request possible.
  private func limitCharges(_ budget: [BudgetCharge], of peer: RelayName) -> [LimitCharge] {
    budget.filter { $0.amount > 0 }.map {
      LimitCharge(min(Double($0.amount), limiter.shape(of: $0.budget).size), from: $0.budget, key: LimitKey(peer))
    }
  }

  private func count(_ budget: [BudgetCharge], of peer: RelayName) {
    for charge in budget where charge.amount > 0 { charges.add(charge.amount, of: peer, charge.budget.rawValue) }
  }

  private static let strangersTries = 20.0
  /// Each process's own buckets, which serve while Redis is away, hold less.
  private static let hopelessWait = Duration.seconds(60)
  private static let waitMax = Duration.seconds(3600)
}
