import RelayCore
import Synchronization

/// Hands over to peers: where a peer takes batches, what gathers while one is under way travels together in the next;
/// elsewhere each hand-over is a request of its own (docs/federation.md, "Batches").
package final class HandOverSender: Sendable {
  let transport: PeerTransport
  private let gathering = Mutex<[RelayName: GatheringHandOvers]>([:])

  package init(transport: PeerTransport) { self.transport = transport }

  /// - Throws: what kept it from being answered. `.timedOut` within the transport's time-out, waiting included.
  func send(_ handOver: HandOver, to peer: KnownPeer) async throws(PeerFailure) -> HandOverAnswer {
    let deadline = ContinuousClock.now + transport.limits.requestTimeout
    guard await takesBatches(peer), handOver.wireBytesMax <= WireLimits.batchBytesMax else {
      return try await sendAlone(handOver, to: peer, until: deadline)
    }
    return try await gathering(for: peer.name).send(handOver, until: deadline) { [self] batch async in
      // Whoever came first has the least time left: the batch has all of it.
      await sendNow(batch[...], to: peer, until: .now + transport.limits.requestTimeout).each
    }
  }

  /// In order as far as destinations are concerned. What is gathered elsewhere meanwhile does not wait for these, nor
  /// these for that.
  func send(_ handOvers: [HandOver], to peer: KnownPeer) async -> HandOverAnswers {
    let isBatched = await takesBatches(peer)
    var sent = HandOverAnswers()
    var rest = handOvers[...]
    while !rest.isEmpty, sent.failure == nil {
      let part = isBatched ? Self.firstBatch(of: rest) : Self.firstRound(of: rest)
      sent += await sendNow(part, to: peer)
      rest = rest.dropFirst(part.count)
    }
    sent.leaveOut(rest.count)
    return sent
  }

  /// How many hand-overs wait for the batch to `relay` that is under way.
  func waitingCount(for relay: RelayName) -> Int { gathering(for: relay).waitingCount }

  private func takesBatches(_ peer: KnownPeer) async -> Bool {
    await transport.capabilities(of: peer).contains(.batches)
  }

  private func gathering(for relay: RelayName) -> GatheringHandOvers {
    gathering.withLock { gathering in
      if let known = gathering[relay] { return known }
      let limits = transport.limits
      let made = GatheringHandOvers(
        bounds: .init(waitingMax: limits.waitingMax, waitingBytesMax: limits.waitingBytesMax))
      gathering[relay] = made
      return made
    }
  }

  /// As one batch; one by one where there is one only, or the peer does not know batches after all.
  /// - Parameter deadline: of requests that are made one after the other; nil for none but their own time-outs.
  private func sendNow(
    _ batch: ArraySlice<HandOver>, to peer: KnownPeer, until deadline: ContinuousClock.Instant? = nil
  ) async -> HandOverAnswers {
    let isBatched = await takesBatches(peer)
    guard isBatched, batch.count > 1 || batch.contains(where: \.isBetterBatched) else {
      return await sendOneByOne(batch, to: peer, until: deadline)
    }
    do throws(PeerFailure) {
      let answer = try await transport.send(try HandOver.request(for: Array(batch)), to: peer)
      switch answer.status {
      case 200: return HandOverAnswers(try HandOverAnswer.read(answer, count: batch.count))
      case 404, 405:
        transport.forgetBatches(of: peer)
        return await sendOneByOne(batch, to: peer, until: deadline)
      default:
        let each = HandOverAnswer(status: answer.status, retryAfterSeconds: answer.retryAfterSeconds)
        return HandOverAnswers(batch.map { _ in each })
      }
    } catch {
      if error == .unreadable { transport.forgetBatches(of: peer) }
      return HandOverAnswers(unanswered: batch.count, error)
    }
  }

  /// Side by side, but for those with one destination. Ends with the round in which one was not answered.
  private func sendOneByOne(
    _ handOvers: ArraySlice<HandOver>, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    var sent = HandOverAnswers()
    var rest = handOvers
    while !rest.isEmpty, sent.failure == nil {
      let round = Self.firstRound(of: rest)
      sent += await sendRound(round, to: peer, until: deadline)
      rest = rest.dropFirst(round.count)
    }
    sent.leaveOut(rest.count)
    return sent
  }

  private func sendRound(
    _ handOvers: ArraySlice<HandOver>, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async -> HandOverAnswers {
    typealias Answer = Result<HandOverAnswer, PeerFailure>
    return await withTaskGroup(of: (Int, Answer).self) { group in
      for (index, handOver) in handOvers.enumerated() {
        group.addTask { [self] in
          do throws(PeerFailure) {
            return (index, .success(try await sendAlone(handOver, to: peer, until: deadline)))
          } catch {
            return (index, .failure(error))
          }
        }
      }
      var answers: [Int: Answer] = [:]
      for await (index, answer) in group { answers[index] = answer }
      return HandOverAnswers(handOvers.indices.map { answers[$0 - handOvers.startIndex] ?? .failure(.cancelled) })
    }
  }

  private func sendAlone(
    _ handOver: HandOver, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async throws(PeerFailure) -> HandOverAnswer {
    var request = handOver.request
    request.deadline = deadline
    return HandOverAnswer(try await transport.send(request, to: peer))
  }

  /// How many hand-overs to a peer without batches are under way at a time, for each that sends several.
  static let roundMax = 16

  /// Those that may be under way at a time: of two with one destination the peer may not take the second before the
  /// first.
  static func firstRound(of handOvers: ArraySlice<HandOver>) -> ArraySlice<HandOver> {
    var destinations: Set<AccountNumber> = []
    return handOvers.prefix(roundMax).prefix { destinations.insert($0.destination).inserted }
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
