import RelayCore

/// Requests that draw prekeys at peers: many in one where the peer takes it, else each by a request of its own
/// (docs/federation-wire.md, "Draws together").
struct KeyRequests: Sendable {
  let transport: PeerTransport

  func alone(
    _ draw: KeyDraw, at peer: KnownPeer, until deadline: ContinuousClock.Instant
  ) async throws(PeerFailure) -> KeyDrawAnswer {
    var request = draw.alone
    request.deadline = deadline
    return try KeyDrawAnswer(try await transport.send(request, to: peer), version: draw.version)
  }

  /// - Parameters:
  ///   - draws: 1 to `KeyBatchCodec.drawsMax`.
  ///   - peer: in whatever state it was; the transport goes by what the registry holds now.
  /// - Returns: an outcome for each, in their order.
  func together(_ draws: [KeyDraw], at peer: KnownPeer) async -> [PeerKeyQueue.Outcome] {
    do throws(PeerFailure) {
      let answer = try await transport.send(try KeyBatchCodec.request(for: draws), to: peer)
      switch answer.status {
      case 200: return try KeyBatchCodec.read(answer, to: draws)
      case 404, 405:
        // Another process of the peer's, of an older build: nothing was drawn.
        transport.forget([.keyBatches], of: peer)
        return await oneByOne(draws, at: peer)
      default:
        let refusal = HandOverAnswer(status: answer.status, retryAfterSeconds: answer.retryAfterSeconds)
        return draws.map { _ in .success(.refused(refusal)) }
      }
    } catch {
      if error == .unreadable || error == .answerTooLarge { transport.forget([.keyBatches], of: peer) }
      return draws.map { _ in .failure(error) }
    }
  }

  /// Side by side.
  private func oneByOne(_ draws: [KeyDraw], at peer: KnownPeer) async -> [PeerKeyQueue.Outcome] {
    let deadline = ContinuousClock.now + transport.limits.requestTimeout
    return await withTaskGroup(of: (Int, PeerKeyQueue.Outcome).self) { group in
      var outcomes = [PeerKeyQueue.Outcome](repeating: .failure(.cancelled), count: draws.count)
      var waiting = draws.enumerated().map { ($0, $1) }[...]
      func begin() {
        guard let (index, draw) = waiting.popFirst() else { return }
        group.addTask {
          do throws(PeerFailure) {
            return (index, .success(try await self.alone(draw, at: peer, until: deadline)))
          } catch {
            return (index, .failure(error))
          }
        }
      }
      for _ in 0..<Self.aloneAtOnceMax { begin() }
      for await (index, outcome) in group {
        outcomes[index] = outcome
        begin()
      }
      return outcomes
    }
  }

  private static let aloneAtOnceMax = 16
}
