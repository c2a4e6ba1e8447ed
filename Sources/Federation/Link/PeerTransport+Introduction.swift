import RelayCore
import RelayWork
import Synchronization

/// The first requests of a new peering: the peer's processes may not have read of us yet, and one refusal would halt
/// all requests for seconds (docs/federation.md, "A peer that is away").
extension PeerTransport {
  /// How long around `Peer.added`.
  private static let youthMillis: Int64 = 30_000
  /// Together twice as long as a peer's processes take to read their store.
  private static let introductionPauses: [Duration] = [
    .milliseconds(100), .milliseconds(300), .milliseconds(600), .milliseconds(1000),
  ]

  func isYoung(_ peer: KnownPeer) -> Bool {
    // The host that added it may have another clock.
    abs(clock.now().millis - peer.peer.added.millis) < Self.youthMillis
  }

  /// Asks a peer that may not know us yet, a few times if need be: what it refuses was not served, and is not counted.
  /// - Returns: nil when it still refuses us: it is to be asked once more, and that counts.
  func introduce(
    _ request: PeerRequest, to peer: KnownPeer, on link: PeerLink, isRushed: Bool
  ) async throws(PeerFailure) -> PeerAnswer? {
    for pause in Self.introductionPauses {
      do throws(PeerFailure) {
        let answer = try await perform(request, to: peer, on: link, isRushed: isRushed, forgivesRefusal: true)
        guard answer.isPeerRefusal else { return answer }
      } catch {
        switch error {
        case .handshake, .retired: break
        default: throw error
        }
      }
      if let deadline = request.deadline, deadline <= .now + pause { return nil }
      // A connection that was made as a stranger's may stay one.
      link.disconnect()?.retire()
      guard await Pause.for(pause) else { throw .cancelled }
      if let fault = link.state.withLock({ $0.breaker.fault }) { throw .halted(fault) }
    }
    return nil
  }
}
