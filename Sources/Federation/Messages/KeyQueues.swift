import RelayCore
import Synchronization

/// Draws prekeys at peers, each of which has a queue of its own if it takes many draws in a request.
final class KeyQueues: Sendable {
  private let requests: KeyRequests
  private let queues = Mutex<[RelayName: PeerKeyQueue]>([:])

  init(_ requests: KeyRequests) { self.requests = requests }

  /// - Throws: what kept it from being answered. `.timedOut` within the transport's time-out, waiting included.
  func answer(to draw: KeyDraw, by peer: KnownPeer) async throws(PeerFailure) -> KeyDrawAnswer {
    let deadline = ContinuousClock.now + requests.transport.limits.requestTimeout
    guard await requests.transport.capabilities(of: peer).contains(.keyBatches) else {
      return try await requests.alone(draw, at: peer, until: deadline)
    }
    return try await queue(of: peer).answer(to: draw, until: deadline)
  }

  private func queue(of peer: KnownPeer) -> PeerKeyQueue {
    queues.withLock { queues in
      if let known = queues[peer.name] { return known }
      let made = PeerKeyQueue(waitingMax: requests.transport.limits.waitingMax) { [requests] in
        await requests.together($0, at: peer)
      }
      queues[peer.name] = made
      return made
    }
  }
}
