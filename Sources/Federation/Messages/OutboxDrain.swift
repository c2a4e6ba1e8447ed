import RelayCore

/// Hands over what waits for one peer, a page in memory at a time. Its caller has the peer's lease.
struct OutboxDrain: Sendable {
  enum Outcome {
    /// Nothing that is due is left.
    case done
    /// The peer serves nothing of it just now.
    case struggling
    /// The peer cannot be reached.
    case failed(PeerFailure)
  }
  struct Tally: Sendable {
    var read = 0
    var delivered = 0
    /// Gone, and their senders told.
    var givenUp = 0
    /// Gone, though their senders could not be told for a day.
    var dropped = 0
    /// Still held because their senders could not be told.
    var untold = 0

    /// Far more was read than moved: much waits behind a few messages that are put off.
    var isMostlySkipped: Bool { read > 1000 + 10 * (delivered + givenUp + dropped) }

    mutating func add(_ outcome: OutboxRemoval.Outcome) {
      givenUp += outcome.told
      dropped += outcome.dropped
      untold += outcome.untold.count
    }
  }

  let store: any OutboxStore
  let requests: HandOverRequests
  let confirmations: Confirmations
  let removal: OutboxRemoval
  let policy: OutboxPolicy
  let clock: JudgedClock

  /// Read at a time; the store ends a page of large messages earlier.
  static let pageMax = 1024

  /// Gives up messages that have waited for too long, whether the peer can be reached or not. If the sender cannot be
  /// told, the message waits on, and may still be handed over.
  func expire(_ relay: RelayName, _ tally: inout Tally) async throws(Problem) {
    var last: Int64 = 0
    while !Task.isCancelled {
      let now = clock.removal()
      let page = try await page(of: relay, after: last)
      let looked = page.prefix { held in
        policy.isTooOld(held.accepted, at: now) || policy.isFromAhead(held.accepted, at: clock.now())
      }
      let old = looked.filter { policy.isTooOld($0.accepted, at: now) }
      tally.add(try await removal.giveUp(old, because: .expired, by: policy, at: now))
      guard let end = looked.last?.sequence, looked.count == page.count else { break }
      last = end
    }
  }

  /// Adds what was done to `tally`, before an error too.
  func drain(_ peer: KnownPeer, _ tally: inout Tally) async throws(Problem) -> Outcome {
    var pass = OutboxPass()
    let isInOrder = await requests.takesOrderedBatches(peer)
    while !Task.isCancelled {
      let page = try await page(of: peer.name, after: pass.last)
      if page.isEmpty { return .done }
      tally.read += page.count
      pass.pageRead(page)
      while !Task.isCancelled {
        let wave = pass.nextWave(at: clock.now(), isInOrder: isInOrder)
        if wave.isEmpty { break }
        let sent = await send(wave, to: peer, isInOrder ? .waited : .none)
        let answered = sent.compactMap { held, result in result.success.map { (held, $0) } }
        for (held, answer) in answered {
          await confirmations.answered(held.message.submission, with: answer.verdict, by: peer)
        }
        try await settle(answered, &pass, &tally)
        // A message without an answer does not count as an attempt.
        if let failure = sent.lazy.compactMap(\.1.failure).first { return .failed(failure) }
        if pass.isHopeless { return .struggling }
      }
    }
    return .done
  }

  /// To a peer that takes batches in order, side by side: so a slow commit of the peer counts once for all of them.
  /// - Returns: the outcome of each, those of one destination in their order.
  private func send(
    _ wave: [HeldMessage], to peer: KnownPeer, _ terms: BatchTerms
  ) async -> [(HeldMessage, Result<HandOverAnswer, PeerFailure>)] {
    await withTaskGroup { group in
      for batch in terms.isInOrder ? OutboxPass.batches(of: wave) : [wave] {
        group.addTask {
          zip(batch, await requests.sendAll(batch.map(\.message.handOver), to: peer, terms).each).map { ($0, $1) }
        }
      }
      return await group.reduce(into: []) { $0 += $1 }
    }
  }

  private func settle(
    _ answered: [(HeldMessage, HandOverAnswer)], _ pass: inout OutboxPass, _ tally: inout Tally
  ) async throws(Problem) {
    var delivered: [HeldMessage] = []
    var givenUp: [UndeliverableReason: [HeldMessage]] = [:]
    var putOff: [Duration: [Int64]] = [:]
    for (held, answer) in answered {
      switch policy.action(after: answer, attempts: held.attempts) {
      case .delivered:
        delivered.append(held)
        pass.settled()
      case .giveUp(let reason):
        givenUp[reason, default: []].append(held)
        pass.settled()
      case .putOff(let pause):
        // A message that only stood behind another one was not tried.
        if pass.putOff(held) { putOff[pause, default: []].append(held.sequence) }
      }
    }
    try await removal.delivered(delivered)
    tally.delivered += delivered.count
    let now = clock.now()
    let past = clock.removal()
    for (pause, sequences) in putOff {
      try await storing { () async throws(StoreError) in
        try await store.putOff(sequences, until: now.adding(pause))
      }
    }
    for (reason, held) in givenUp {
      let outcome = try await removal.giveUp(held, because: reason, by: policy, at: past)
      tally.add(outcome)
      if outcome.untold.isEmpty { continue }
      for untold in outcome.untold { pass.kept(untold) }
      try await storing { () async throws(StoreError) in
        try await store.putOff(outcome.untold.map(\.sequence), until: now.adding(OutboxPolicy.untoldPause))
      }
    }
  }

  private func page(of relay: RelayName, after sequence: Int64) async throws(Problem) -> [HeldMessage] {
    try await storing { () async throws(StoreError) in
      try await store.held(for: relay, after: sequence, limit: Self.pageMax)
    }
  }
}

extension PeerSubmission {
  var handOver: HandOver { .message(submission, source: source) }
}
