import RelayCore
import RelayWork
import Synchronization

/// Hands over to peers: where a peer takes batches, what gathers while one is under way travels together in the next;
/// elsewhere each hand-over is a request of its own (docs/federation-wire.md, "Batches").
package final class HandOverSender: Sendable {
  /// The state that this process keeps for one peer.
  private struct Lane {
    let patience: PeerPatience
    let gathering: GatheringHandOvers
  }

  let transport: PeerTransport
  let ledger: HandOverLedger
  private let lanes = Mutex<[RelayName: Lane]>([:])

  package init(transport: PeerTransport, ledger: HandOverLedger) {
    self.transport = transport
    self.ledger = ledger
  }

  /// Hands over what is not held.
  /// - Parameter outbox: where messages for `peer` are held meanwhile: they wait behind this one as behind another.
  ///   nil for nowhere.
  /// - Throws: what kept it from being answered. `.timedOut` within the transport's time-out, waiting included.
  func send(
    _ handOver: HandOver, to peer: KnownPeer, beside outbox: Outbox? = nil
  ) async throws(PeerFailure) -> HandOverAnswer {
    let deadline = ContinuousClock.now + transport.limits.requestTimeout
    guard await takesBatches(peer), handOver.wireBytesMax <= WireLimits.batchBytesMax else {
      return try await sendAlone(handOver, to: peer, until: deadline)
    }
    let outcome = try await lane(to: peer.name).gathering.send(
      handOver, until: deadline, or: outbox.map { HoldingPlace(outbox: $0, peer: peer) }, by: sendingBatches(to: peer))
    guard case .answered(let answer) = outcome else { throw .cancelled }
    return answer
  }

  /// Hands `message` over, or has `outbox` hold it: when it must not overtake what is held, when the peer cannot be
  /// reached, and when it keeps us waiting.
  /// - Throws: when too much waits, when the caller goes away, and when all of it took longer than a request may.
  func send(
    _ message: OutgoingMessage, to peer: KnownPeer, orHoldIn outbox: Outbox
  ) async throws(PeerFailure) -> HandOverOutcome {
    let deadline = ContinuousClock.now + transport.limits.requestTimeout
    let place = HoldingPlace(outbox: outbox, peer: peer)
    // As long as it has not told whether it takes batches, messages queue up: whatever it will have told, the order is
    // kept.
    let takesBatches = transport.capabilitiesTold(by: peer)?.contains(.batches) ?? true
    guard takesBatches, message.handOver.wireBytesMax <= WireLimits.batchBytesMax else {
      return await sendAlone(message, or: place, until: deadline)
    }
    return try await lane(to: peer.name).gathering.send(
      message.handOver, until: deadline, or: place, by: sendingBatches(to: peer))
  }

  private func sendAlone(
    _ message: OutgoingMessage, or place: HoldingPlace, until deadline: ContinuousClock.Instant
  ) async -> HandOverOutcome {
    let (patience, peer) = (lane(to: place.peer.name).patience, place.peer)
    if patience.isExhausted { return .held(await place.outbox.hold(message, for: peer)) }
    do throws(Problem) {
      let waiting = try await place.outbox.mustWait([message.submission.destination], at: peer)
      guard waiting.isEmpty else { return .held(await place.outbox.hold(message, for: peer)) }
    } catch {
      return .held(error)
    }
    let request = Task { await result(of: message.handOver, to: peer, until: deadline) }
    if let answer = await patience.wait(for: { await request.value }) {
      guard case .success(let told) = answer, !answer.isUnserved else {
        return .held(await place.outbox.hold(message, for: peer))
      }
      return .answered(told)
    }
    guard let problem = await place.outbox.hold(message, for: peer) else {
      Task {
        // Only for what it says of the destination's devices.
        guard case .success(let told) = await request.value else { return }
        await place.outbox.answered(message.submission, with: told.verdict, by: peer)
      }
      return .held(nil)
    }
    // It cannot be held, but the peer may take it yet, as long as `deadline` allows.
    let answer = await request.value
    guard case .success(let told) = answer, !answer.isUnserved else { return .held(problem) }
    return .answered(told)
  }

  /// Keeps the order of hand-overs to one destination. These hand-overs and those that gather elsewhere meanwhile do
  /// not wait for each other.
  ///
  /// - Parameter terms: in order, a message that follows one of its pair that was put off gets the same answer.
  func send(_ handOvers: [HandOver], to peer: KnownPeer, _ terms: BatchTerms = .none) async -> HandOverAnswers {
    let isBatched = await takesBatches(peer)
    var rounds = HandOverRounds(handOvers, isInOrder: terms.isInOrder)
    while let part = rounds.next(isBatched ? Self.firstBatch : Self.firstRound) {
      let answers = await sendNow(part, to: peer, terms)
      await answers.noted?.value
      rounds.answered(answers)
    }
    return rounds.outcome
  }

  /// How many hand-overs wait for the batch to `relay` that is under way.
  func waitingCount(for relay: RelayName) -> Int { lane(to: relay).gathering.waitingCount }
  /// Whether `relay` has left a message that may be held without an answer for long, and still does.
  func isKeptWaiting(by relay: RelayName) -> Bool { lane(to: relay).patience.isExhausted }

  /// Whether several messages for one destination may travel in one batch that comes from the outbox.
  func takesOrderedBatches(_ peer: KnownPeer) async -> Bool {
    await transport.capabilities(of: peer).isSuperset(of: [.batches, .orderedBatches])
  }

  private func takesBatches(_ peer: KnownPeer) async -> Bool {
    await transport.capabilities(of: peer).contains(.batches)
  }

  private func lane(to relay: RelayName) -> Lane {
    lanes.withLock { lanes in
      if let known = lanes[relay] { return known }
      let (limits, patience) = (transport.limits, PeerPatience(transport.limits.patience))
      let made = Lane(
        patience: patience,
        gathering: GatheringHandOvers(
          waiting: .init(items: limits.waitingMax, bytes: limits.waitingBytesMax), patience: patience))
      lanes[relay] = made
      return made
    }
  }

  private func sendingBatches(to peer: KnownPeer) -> GatheringHandOvers.Send {
    { [self] batch, terms in
      // The first caller has the least time left: the batch has all of that time.
      await sendNow(batch[...], to: peer, terms, until: .now + transport.limits.requestTimeout)
    }
  }

  /// As one batch where the peer keeps the terms; one by one where there is one only.
  /// - Parameter deadline: of requests that are made one after the other; nil for none but their own time-outs.
  private func sendNow(
    _ batch: ArraySlice<HandOver>, to peer: KnownPeer, _ terms: BatchTerms,
    until deadline: ContinuousClock.Instant? = nil
  ) async -> HandOverAnswers {
    let capabilities = await transport.capabilities(of: peer)
    guard capabilities.contains(.batches),
      batch.count > 1 || terms.hasWaited || batch.contains(where: \.isBetterBatched)
    else {
      return await sendOneByOne(batch, to: peer, terms, until: deadline)
    }
    if terms.isInOrder, !capabilities.contains(.orderedBatches) {
      return await sendInOrder(batch, to: peer, until: deadline)
    }
    return await sendTogether(batch, to: peer, terms, until: deadline)
  }

  /// To a peer that may take a later message of a batch without an earlier one: of each pair of accounts one a batch.
  /// - Parameter deadline: behind it no batch begins.
  private func sendInOrder(
    _ handOvers: ArraySlice<HandOver>, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    var rounds = HandOverRounds(handOvers, isInOrder: true)
    while deadline.map({ $0 > .now }) ?? true, let batch = rounds.next(Self.firstOfPairs) {
      let isTogether = batch.count > 1 || batch.contains(where: \.isBetterBatched)
      rounds.answered(
        isTogether
          ? await sendTogether(batch, to: peer, .none, until: deadline)
          : await sendOneByOne(batch, to: peer, .none, until: deadline))
    }
    return rounds.outcome
  }

  /// As one batch; one by one where the peer does not know batches after all.
  private func sendTogether(
    _ batch: ArraySlice<HandOver>, to peer: KnownPeer, _ terms: BatchTerms, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    do throws(PeerFailure) {
      let handOvers = Array(batch)
      let crossings = handOvers.map { ledger.crossings(of: $0, to: peer.name) }
      let request = try HandOver.request(for: handOvers, terms, crossings: crossings)
      let answer = try await transmit(crossings, as: request, to: peer) { answer throws(PeerFailure) in
        answer.status == 200 ? try HandOverAnswer.read(answer, count: batch.count) : []
      }
      switch answer.status {
      case 200: return HandOverAnswers(answer.each, noted: answer.noted)
      case 404, 405:
        await answer.noted.value
        transport.forgetBatches(of: peer)
        return await sendOneByOne(batch, to: peer, terms, until: deadline)
      default:
        let each = HandOverAnswer(status: answer.status, retryAfterSeconds: answer.retryAfterSeconds)
        return HandOverAnswers(batch.map { _ in each }, noted: answer.noted)
      }
    } catch {
      if error == .unreadable { transport.forgetBatches(of: peer) }
      return HandOverAnswers(unanswered: batch.count, error)
    }
  }

  /// Side by side, but for those with one destination. Ends with the round in which one was not answered.
  private func sendOneByOne(
    _ handOvers: ArraySlice<HandOver>, to peer: KnownPeer, _ terms: BatchTerms, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    var rounds = HandOverRounds(handOvers, isInOrder: terms.isInOrder)
    while let round = rounds.next(Self.firstRound) {
      rounds.answered(await sendRound(round, to: peer, until: deadline))
    }
    return rounds.outcome
  }

  private func sendRound(
    _ handOvers: ArraySlice<HandOver>, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    await withTaskGroup(of: (Int, Result<HandOverAnswer, PeerFailure>).self) { group in
      for (index, handOver) in handOvers.enumerated() {
        group.addTask { [self] in (index, await result(of: handOver, to: peer, until: deadline)) }
      }
      var answers: [Int: Result<HandOverAnswer, PeerFailure>] = [:]
      for await (index, answer) in group { answers[index] = answer }
      return HandOverAnswers(handOvers.indices.map { answers[$0 - handOvers.startIndex] ?? .failure(.cancelled) })
    }
  }

  private func result(
    of handOver: HandOver, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async -> Result<HandOverAnswer, PeerFailure> {
    do throws(PeerFailure) {
      return .success(try await sendAlone(handOver, to: peer, until: deadline))
    } catch {
      return .failure(error)
    }
  }

  private func sendAlone(
    _ handOver: HandOver, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async throws(PeerFailure) -> HandOverAnswer {
    let crossings = ledger.crossings(of: handOver, to: peer.name)
    var request = handOver.request
    request.deadline = deadline
    request.crossings = CrossingMarks.text(crossings)
    if let id = handOver.requestID { request.id = id }
    let answer = try await transmit([crossings], as: request, to: peer) { [HandOverAnswer($0)] }
    await answer.noted.value
    return answer.each[0]
  }

  /// Also notes the hand-overs. No caller may be told of the answer before `noted` ends. The next request need not
  /// wait for it.
  /// - Parameters:
  ///   - crossings: the crossings of each hand-over.
  ///   - read: the answer to each hand-over, in order; none if the peer answered them as a whole.
  private func transmit(
    _ crossings: [[Crossing]], as request: PeerRequest, to peer: KnownPeer,
    reading read: (PeerAnswer) throws(PeerFailure) -> [HandOverAnswer]
  ) async throws(PeerFailure) -> (
    status: Int, retryAfterSeconds: Int?, each: [HandOverAnswer], noted: Task<Void, Never>
  ) {
    let note = HandOverNote(of: crossings, to: peer.name, in: ledger)
    do throws(PeerFailure) {
      let answer = try await transport.send(request, to: peer)
      let each = try read(answer)
      return (answer.status, answer.retryAfterSeconds, each, Task { await note.answered(each) })
    } catch {
      await note.answered([])
      throw error
    }
  }

  /// How many hand-overs to a peer without batches are under way at a time, for each that sends several.
  static let roundMax = 16

  /// The hand-overs that may be under way at a time. If two have one destination, the peer may not take the second
  /// before the first.
  static func firstRound(of handOvers: ArraySlice<HandOver>) -> ArraySlice<HandOver> {
    var destinations: Set<AccountNumber> = []
    return handOvers.prefix(roundMax).prefix { destinations.insert($0.destination).inserted }
  }

  /// The longest beginning in which no two messages have the same source and destination.
  static func firstOfPairs(of handOvers: ArraySlice<HandOver>) -> ArraySlice<HandOver> {
    var pairs: Set<AccountPair> = []
    return handOvers.prefix { handOver in
      handOver.orderedPair.map { pairs.insert($0).inserted } ?? true
    }
  }

  /// As many as one batch takes; one at least.
  static func firstBatch(of handOvers: ArraySlice<HandOver>) -> ArraySlice<HandOver> {
    var bytes = 0
    let more = handOvers.prefix(WireLimits.handOversPerBatchMax).prefix { handOver in
      bytes += handOver.wireBytesMax
      return bytes <= WireLimits.batchBytesMax
    }
    return more.isEmpty ? handOvers.prefix(1) : more
  }
}

extension HandOver {
  /// Whether the reference's form would say less.
  fileprivate var isBetterBatched: Bool {
    if case .message(let submission, _) = self { submission.coverage == .masterDevice } else { false }
  }
}
