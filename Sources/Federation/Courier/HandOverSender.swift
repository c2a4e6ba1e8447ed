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
      await answers(to: batch, from: peer)
    }
  }

  /// In order. What is gathered elsewhere meanwhile does not wait for these, nor these for that.
  /// - Throws: when nothing was answered. Once something was, what a failure leaves unanswered has the status 503.
  func send(_ handOvers: [HandOver], to peer: KnownPeer) async throws(PeerFailure) -> [HandOverAnswer] {
    let isBatched = await takesBatches(peer)
    var answers: [HandOverAnswer] = []
    var rest = handOvers[...]
    while !rest.isEmpty {
      let part = isBatched ? Self.firstBatch(of: rest) : rest.prefix(1)
      do throws(PeerFailure) {
        answers += try await sendNow(Array(part), to: peer)
      } catch {
        guard !answers.isEmpty else { throw error }
        return answers + rest.map { _ in HandOverAnswer(status: 503) }
      }
      rest = rest.dropFirst(part.count)
    }
    return answers
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

  /// What becomes of each hand-over of one batch, in its order. Those that have waited too long do not travel.
  private func answers(
    to batch: [GatheringHandOvers.Item], from peer: KnownPeer
  ) async -> [Result<HandOverAnswer, PeerFailure>] {
    let now = ContinuousClock.now
    let timely = batch.filter { now < $0.deadline }
    guard let deadline = timely.map(\.deadline).min() else { return batch.map { _ in .failure(.timedOut) } }
    let sent: [Result<HandOverAnswer, PeerFailure>]
    do throws(PeerFailure) {
      sent = try await sendNow(timely.map(\.handOver), to: peer, until: deadline).map { .success($0) }
    } catch {
      sent = timely.map { _ in .failure(error) }
    }
    var answers = sent.makeIterator()
    return batch.map { now < $0.deadline ? answers.next() ?? .failure(.unreadable) : .failure(.timedOut) }
  }

  /// As one batch; one by one where there is one only, or the peer does not know batches after all.
  /// - Throws: when nothing was answered.
  private func sendNow(
    _ batch: [HandOver], to peer: KnownPeer, until deadline: ContinuousClock.Instant? = nil
  ) async throws(PeerFailure) -> [HandOverAnswer] {
    guard batch.count > 1 || batch.contains(where: \.isBetterBatched) else {
      return try await sendOneByOne(batch, to: peer, until: deadline)
    }
    var request = try HandOver.request(for: batch)
    request.deadline = deadline
    let answer = try await transport.send(request, to: peer)
    switch answer.status {
    case 200:
      do throws(PeerFailure) {
        return try HandOverAnswer.read(answer, count: batch.count)
      } catch {
        transport.forgetBatches(of: peer)
        throw error
      }
    case 404, 405:
      transport.forgetBatches(of: peer)
      return try await sendOneByOne(batch, to: peer, until: deadline)
    default:
      let each = HandOverAnswer(status: answer.status, retryAfterSeconds: answer.retryAfterSeconds)
      return batch.map { _ in each }
    }
  }

  private func sendOneByOne(
    _ handOvers: [HandOver], to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async throws(PeerFailure) -> [HandOverAnswer] {
    var answers: [HandOverAnswer] = []
    for handOver in handOvers {
      do throws(PeerFailure) {
        answers.append(try await sendAlone(handOver, to: peer, until: deadline))
      } catch {
        guard !answers.isEmpty else { throw error }
        return answers + handOvers.dropFirst(answers.count).map { _ in HandOverAnswer(status: 503) }
      }
    }
    return answers
  }

  private func sendAlone(
    _ handOver: HandOver, to peer: KnownPeer, until deadline: ContinuousClock.Instant?
  ) async throws(PeerFailure) -> HandOverAnswer {
    var request = handOver.request
    request.deadline = deadline
    return HandOverAnswer(try await transport.send(request, to: peer))
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
