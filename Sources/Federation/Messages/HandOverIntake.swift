import RelayCore

/// The one way in for what peers hand over, whether alone or in a batch.
struct HandOverIntake: Sendable {
  let intake: any Intake
  let sources: SourceCheck
  let budget: PeerBudget
  let ledger: HandOverLedger

  /// Charges, checks and accepts. On return it is durable; safe to repeat.
  ///
  /// The relay that recipients are shown is `peer`, which the certificate proved (reference 1.13.3).
  /// - Parameters:
  ///   - charges: what the peer's budget is charged for it besides.
  ///   - hasWaited: whether it comes from the peer's outbox.
  ///   - isCharged: whether `chargeAtOnce` has charged it.
  ///   - marks: by which the loss ledger counts it; none for nothing.
  /// - Throws: `.budgetExceeded`; `.notFound` for a receipt of what was never handed over to `peer`; `.unavailable`
  ///   when the limiter of this pair of accounts refuses (reference 1.13.2), or a store does; `.sourceRefused`; what
  ///   the intake refuses with.
  func accept(
    _ handOver: HandOver, marks: [CrossingMark], from peer: RelayName, charges: [BudgetCharge], hasWaited: Bool = false,
    isCharged: Bool = false
  ) async throws(Problem) {
    do throws(Problem) {
      if !isCharged { try await charge(handOver, charges, of: peer, hasWaited) }
      try await takeIn(handOver, marks, from: peer)
    } catch {
      // A hand-over that is put off comes again.
      if !marks.isEmpty, !HandOverAnswer(error).isPutOff { ledger.turnedDown(handOver, marks: marks, of: peer) }
      throw error
    }
  }

  /// Charges `handOvers` together, as `accept` does without `charges`.
  /// - Returns: of each whether it is charged; `accept` tells what becomes of the others.
  func chargeAtOnce(_ handOvers: [HandOver], of peer: RelayName, hasWaited: Bool) async -> [Bool] {
    await budget.chargeAtOnce(
      handOvers.map { ($0.budgetCharges, $0.limitCharge(at: peer, hasWaited: hasWaited)) }, of: peer)
  }

  private func takeIn(_ handOver: HandOver, _ marks: [CrossingMark], from peer: RelayName) async throws(Problem) {
    try await sources.demand(handOver.source.account, from: peer)
    switch handOver {
    case .message(let submission, let source):
      _ = try await intake.accept(submission, marks: marks, from: .peer(peer, source: source))
    case .receipt(let timestamp, let source, let destination):
      try await ledger.demand(timestamp, from: destination, to: source.account, at: peer)
      try await intake.acceptReceipt(
        for: timestamp, mark: marks.count == 1 ? marks.first : nil, to: destination, from: .peer(peer, source: source))
    }
  }

  /// A refusal of the pair's limiter is the relay's to wait out, not its client's (reference 1.13.2).
  private func charge(
    _ handOver: HandOver, _ charges: [BudgetCharge], of peer: RelayName, _ hasWaited: Bool
  ) async throws(Problem) {
    do throws(Problem) {
      try await budget.charge(
        charges + handOver.budgetCharges, of: peer, and: handOver.limitCharge(at: peer, hasWaited: hasWaited))
    } catch {
      guard error.kind == .rateLimited else { throw error }
      throw Problem(.unavailable, retryAfter: error.retryAfter)
    }
  }
}

extension HandOver {
  var source: DeviceAddress {
    switch self {
    case .message(_, let source), .receipt(_, let source, _): source
    }
  }

  var destination: AccountNumber {
    switch self {
    case .message(let submission, _): submission.destination
    case .receipt(_, _, let destination): destination
    }
  }

  /// Messages for one device each, or receipts; one at least, since a bundle without messages asks for the devices.
  var recipients: Int {
    switch self {
    case .message(let submission, _): max(1, submission.messages.count)
    case .receipt: 1
    }
  }

  /// The peer's budget is charged these for it alone.
  fileprivate var budgetCharges: [BudgetCharge] { isMessage ? [] : [.receipt] }

  /// Messages count by source and destination, receipts by the account that received. Messages that had waited
  /// reached the peer at their own pace, and come here at once. So they have a bucket of their own, with more room.
  fileprivate func limitCharge(at peer: RelayName, hasWaited: Bool) -> LimitCharge {
    switch self {
    case .message(let submission, let source):
      let key = LimitKey(peer, LimitKey(source.account, submission.destination))
      return LimitCharge(
        Double(max(1, submission.messagesPerDeviceMax)), from: hasWaited ? .messagesWaited : .messages, key: key)
    case .receipt(_, let source, _):
      return LimitCharge(1, from: .receipts, key: LimitKey(peer, LimitKey(source.account)))
    }
  }
}
