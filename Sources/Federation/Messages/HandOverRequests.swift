import RelayCore

/// Requests that hand over: as a batch where the peer takes it, else one by one, in rounds where the order demands it
/// (docs/federation-wire.md, "Batches"). Each is noted in the ledger.
package struct HandOverRequests: Sendable {
  let transport: PeerTransport
  let ledger: HandOverLedger

  package init(transport: PeerTransport, ledger: HandOverLedger) {
    self.transport = transport
    self.ledger = ledger
  }

  /// Whether several messages for one destination may travel in one batch that comes from the outbox.
  func takesOrderedBatches(_ peer: KnownPeer) async -> Bool {
    await transport.capabilities(of: peer).isSuperset(of: [.batches, .orderedBatches])
  }

  /// Any number of hand-overs, in parts. These and those of a peer's queue do not wait for each other.
  ///
  /// - Parameter terms: in order, a message that follows one of its pair that was put off gets the same answer.
  func sendAll(_ handOvers: [HandOver], to peer: KnownPeer, _ terms: BatchTerms = .none) async -> HandOverAnswers {
    let takesBatches = await transport.capabilities(of: peer).contains(.batches)
    return await HandOverRounds.run(handOvers, of: takesBatches ? .batch : .destinations, isInOrder: terms.isInOrder) {
      await send($0, to: peer, terms, until: nil)
    }
  }

  /// As one batch where the peer keeps the terms.
  /// - Parameters:
  ///   - batch: not more than one takes.
  ///   - deadline: of requests that are made one after the other; nil for none but their own time-outs.
  func send(
    _ batch: ArraySlice<HandOver>, to peer: KnownPeer, _ terms: BatchTerms, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    let capabilities = await transport.capabilities(of: peer)
    guard capabilities.contains(.batches) else {
      return await sendOneByOne(batch, to: peer, terms, until: deadline)
    }
    guard terms.isInOrder, !capabilities.contains(.orderedBatches) else {
      return await sendTogether(batch, to: peer, terms, until: deadline)
    }
    // The peer may take a later message of a batch without an earlier one: of each pair of accounts one a batch.
    return await HandOverRounds.run(batch, of: .pairs, isInOrder: true) { round in
      guard deadline.map({ $0 > .now }) ?? true else { return HandOverAnswers(unanswered: round.count, .cancelled) }
      return await sendTogether(round, to: peer, .none, until: deadline)
    }
  }

  /// As one batch; one by one where the peer does not know batches after all. One that is larger than a batch may be
  /// goes by itself.
  private func sendTogether(
    _ batch: ArraySlice<HandOver>, to peer: KnownPeer, _ terms: BatchTerms, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    guard batch.count > 1 || terms.hasWaited || batch.allSatisfy(\.fitsIntoBatch) else {
      return await sendOneByOne(batch, to: peer, terms, until: deadline)
    }
    do throws(PeerFailure) {
      let handOvers = Array(batch)
      let crossings = handOvers.map { ledger.crossings(of: $0, to: peer.name) }
      let request = try HandOver.request(for: handOvers, terms, crossings: crossings)
      let (answer, each, noted) = try await transmit(crossings, as: request, to: peer) { answer throws(PeerFailure) in
        answer.status == 200 ? try HandOverAnswer.read(answer, count: batch.count) : []
      }
      switch answer.status {
      case 200: return HandOverAnswers(each, noted: noted)
      case 404, 405:
        await noted.value
        transport.forget(BatchTerms.capabilities, of: peer)
        return await sendOneByOne(batch, to: peer, terms, until: deadline)
      default:
        let refusal = HandOverAnswer(status: answer.status, retryAfterSeconds: answer.retryAfterSeconds)
        return HandOverAnswers(batch.map { _ in refusal }, noted: noted)
      }
    } catch {
      if error == .unreadable { transport.forget(BatchTerms.capabilities, of: peer) }
      return HandOverAnswers(unanswered: batch.count, error)
    }
  }

  /// Side by side, but for those with one destination. Ends with the round in which one was not answered.
  private func sendOneByOne(
    _ handOvers: ArraySlice<HandOver>, to peer: KnownPeer, _ terms: BatchTerms, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    if let only = handOvers.first, handOvers.count == 1 {
      return HandOverAnswers([await send(only, to: peer, until: deadline)])
    }
    return await HandOverRounds.run(handOvers, of: .destinations, isInOrder: terms.isInOrder) { round in
      await withTaskGroup { group in
        for (index, handOver) in round.enumerated() {
          group.addTask { (index, await send(handOver, to: peer, until: deadline)) }
        }
        var results = Array(repeating: Result<HandOverAnswer, PeerFailure>.failure(.cancelled), count: round.count)
        for await (index, result) in group { results[index] = result }
        return HandOverAnswers(results)
      }
    }
  }

  /// As a request of its own.
  func send(
    _ handOver: HandOver, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async -> Result<HandOverAnswer, PeerFailure> {
    let crossings = ledger.crossings(of: handOver, to: peer.name)
    var request = handOver.request
    request.deadline = deadline
    request.crossings = CrossingMarks.text(crossings)
    if let id = handOver.requestID { request.id = id }
    do throws(PeerFailure) {
      let (_, each, noted) = try await transmit([crossings], as: request, to: peer) { [HandOverAnswer($0)] }
      await noted.value
      return .success(each[0])
    } catch {
      return .failure(error)
    }
  }

  /// Also notes the hand-overs. No caller may be told of the answer before `noted` ends. The next request need not
  /// wait for it.
  /// - Parameters:
  ///   - crossings: the crossings of each hand-over.
  ///   - read: the answer to each hand-over, in order; none if the peer answered them as a whole.
  private func transmit(
    _ crossings: [[Crossing]], as request: PeerRequest, to peer: KnownPeer,
    reading read: (PeerAnswer) throws(PeerFailure) -> [HandOverAnswer]
  ) async throws(PeerFailure) -> (answer: PeerAnswer, each: [HandOverAnswer], noted: Task<Void, Never>) {
    let note = HandOverNote(of: crossings, to: peer.name, in: ledger)
    do throws(PeerFailure) {
      let answer = try await transport.send(request, to: peer)
      let each = try read(answer)
      return (answer, each, Task { await note.answered(each) })
    } catch {
      await note.answered([])
      throw error
    }
  }
}

extension HandOver {
  fileprivate var fitsIntoBatch: Bool { wireBytesMax <= WireLimits.batchBytesMax }
}
