import RelayCore
import Synchronization

/// Hands over to peers, each of which has a queue of its own. To a peer that takes batches, what gathers while a
/// request is under way travels together in the next; to others each hand-over is a request of its own
/// (docs/federation-wire.md, "Batches").
package final class HandOverSender: Sendable {
  let requests: HandOverRequests
  /// nil where no message is ever held.
  let outbox: Outbox?
  private let drivers = Mutex<[RelayName: PeerQueueDriver]>([:])

  package init(_ requests: HandOverRequests, outbox: Outbox?) {
    self.requests = requests
    self.outbox = outbox
  }

  /// Hands `handOver` over. Where messages for `peer` are held, the outbox holds a message that must not overtake what
  /// is held, that the peer does not serve, or that it leaves without an answer for long.
  /// - Throws: what kept it from being answered, and from being held. `.timedOut` within the transport's time-out,
  ///   waiting included.
  func send(_ handOver: HandOver, to peer: KnownPeer) async throws(PeerFailure) -> HandOverOutcome {
    let deadline = ContinuousClock.now + requests.transport.limits.requestTimeout
    let holdsMessages = outbox != nil && peer.peer.policy.holdsMessages
    let mayBeHeld = holdsMessages && handOver.isMessage
    // Held while `hold` was on: what follows must not overtake it.
    if handOver.isMessage, !mayBeHeld, try await outbox?.holdsAny(for: handOver.destination, at: peer) ?? false {
      throw .busy
    }
    // As long as the peer has not told whether it takes batches, messages queue up: whatever it will have told, the
    // order is kept.
    let takesBatches =
      if mayBeHeld {
        requests.transport.capabilitiesTold(by: peer)?.contains(.batches) ?? true
      } else {
        await requests.transport.capabilities(of: peer).contains(.batches)
      }
    let isAlone = !takesBatches || handOver.wireBytesMax > WireLimits.batchBytesMax
    if isAlone, !mayBeHeld { return .answered(try await requests.send(handOver, to: peer, until: deadline).get()) }
    return try await driver(to: peer).send(
      handOver, to: peer, holdsMessages: holdsMessages, isAlone: isAlone, until: deadline)
  }

  /// How many hand-overs wait for the batch to `relay` that is under way.
  func waitingCount(for relay: RelayName) -> Int { drivers.withLock { $0[relay] }?.waitingCount ?? 0 }
  /// Whether `relay` has left a request without an answer for longer than patience lasts, and still does.
  func isKeptWaiting(by relay: RelayName) -> Bool { drivers.withLock { $0[relay] }?.isKeptWaiting ?? false }

  private func driver(to peer: KnownPeer) -> PeerQueueDriver {
    drivers.withLock { drivers in
      if let known = drivers[peer.name] { return known }
      let made = PeerQueueDriver(to: peer, requests, outbox: outbox)
      drivers[peer.name] = made
      return made
    }
  }
}
