import NIOCore
package import RelayCore
import RelayHTTP

/// Carries what our clients want of a peer (reference 1.13.2), and the peer's refusals back (1.13.4).
package struct PeerCourier: Courier {
  private let registry: PeerRegistry
  private let handOvers: HandOverSender
  private let keys: KeyQueues
  private var transport: PeerTransport { handOvers.requests.transport }

  package init(registry: PeerRegistry, handOvers: HandOverSender) {
    self.registry = registry
    self.handOvers = handOvers
    keys = KeyQueues(KeyRequests(transport: handOvers.requests.transport))
  }

  package func preKeys(
    of account: AccountNumber, devices: DeviceSelector, version: PreKeyVersion, at relay: RelayName
  ) async throws(Problem) -> [DrawnPreKey] {
    let peer = try await activePeer(relay)
    let draw = KeyDraw(account: account, devices: devices, version: version, request: RequestID.current)
    let answer: KeyDrawAnswer
    do throws(PeerFailure) {
      answer = try await keys.answer(to: draw, by: peer)
    } catch {
      throw Self.unavailable(relay, error)
    }
    switch answer {
    case .drawn(let drawn): return drawn
    case .refused(let refusal): throw Self.problem(refusal, of: relay)
    }
  }

  package func submit(
    _ submission: Submission, from source: DeviceAddress, to relay: RelayName
  ) async throws(Problem) {
    let peer = try await activePeer(relay)
    // Before the first try: the peer knows what is handed over again by it, and names it in a receipt.
    var timed = submission
    timed.timestamp = submission.timestamp ?? transport.clock.now()
    try await handOver(.message(timed, source: source), to: peer)
  }

  package func sendReceipt(
    for timestamp: Timestamp, from source: DeviceAddress, to destination: AccountNumber, at relay: RelayName
  ) async throws(Problem) {
    try await handOver(
      .receipt(timestamp, source: source, destination: destination), to: try await activePeer(relay))
  }

  package func attachmentURL(of id: AttachmentID, at relay: RelayName) async throws(Problem) -> String {
    let answer = try await send(.get("/v1/federation/attachment/\(id.text)"), to: relay)
    do throws(JSONError) {
      return try AttachmentLocation.decode(answer.body.readableBytesUInt8Span.bytes).url
    } catch {
      // A peer that answers what it should not is as good as away.
      throw Self.unavailable(relay, PeerFailure.unreadable)
    }
  }

  /// Peers that are away are probed every few seconds.
  /// - Parameter reason: a `PeerFailure`, or words.
  private static func unavailable(_ relay: RelayName, _ reason: some CustomStringConvertible) -> Problem {
    Problem(.peerUnavailable, retryAfter: .seconds(2), reason: "peer \(relay): \(reason)")
  }

  private func activePeer(_ relay: RelayName) async throws(Problem) -> KnownPeer {
    guard let peer = await registry.peer(named: relay), peer.isActive else { throw Problem(.notFound) }
    return peer
  }

  /// - Returns: an answer of success.
  private func send(_ request: PeerRequest, to relay: RelayName) async throws(Problem) -> PeerAnswer {
    let peer = try await activePeer(relay)
    let answer: PeerAnswer
    do throws(PeerFailure) {
      answer = try await transport.send(request, to: peer)
    } catch {
      throw Self.unavailable(relay, error)
    }
    try Self.demandSuccess(HandOverAnswer(answer), of: relay)
    return answer
  }

  /// On return the peer has it, or it is held.
  private func handOver(_ handOver: HandOver, to peer: KnownPeer) async throws(Problem) {
    let outcome: HandOverOutcome
    do throws(PeerFailure) {
      outcome = try await handOvers.send(handOver, to: peer)
    } catch {
      // Neither handed over nor held, as far as is known.
      throw Self.unavailable(peer.name, error)
    }
    switch outcome {
    case .answered(let answer):
      // Noted where messages are not held too: they may be from the next moment on.
      if case .message(let submission, _) = handOver {
        await handOvers.outbox?.answered(submission, with: answer.verdict, by: peer)
      }
      if !answer.isSuccess { await handOvers.requests.ledger.refused(handOver, by: peer.name) }
      try Self.demandSuccess(answer, of: peer.name)
    case .held(let problem): if let problem { throw problem }
    }
  }

  private static func demandSuccess(_ answer: HandOverAnswer, of relay: RelayName) throws(Problem) {
    if !answer.isSuccess { throw problem(answer, of: relay) }
  }

  /// The problem that tells our client of a peer's refusal. A peer's 401 or 403 concerns us, not the client.
  static func problem(_ answer: HandOverAnswer, of relay: RelayName) -> Problem {
    switch (answer.status, answer.devices) {
    case (404, _): Problem(.notFound)
    case (409, let devices?): Problem(.mismatchedDevices, devices: devices)
    case (410, let devices?): Problem(.staleDevices, devices: devices)
    case (413, _): Problem(.rateLimited, retryAfter: answer.retryAfterSeconds.map { .seconds(min(max($0, 1), 3600)) })
    default: unavailable(relay, "it answered \(answer.status)")
    }
  }
}
