import NIOCore
package import RelayCore
import RelayWork

/// Asks our peers how far our store's epoch had come, and has them remember how far it is now.
///
/// A peer can name any number: what is plausible, and whether to believe one peer, is the caller's to judge.
package struct PeerEpochWitness: EpochWitness {
  private let registry: PeerRegistry
  private let transport: PeerTransport
  private let timeout: Duration

  /// - Parameter timeout: after it, peers that have not answered are left out.
  package init(registry: PeerRegistry, transport: PeerTransport, timeout: Duration = .seconds(5)) {
    self.registry = registry
    self.transport = transport
    self.timeout = timeout
  }

  /// Works before the registry runs: it reads the list of peers itself.
  /// - Returns: what each active peer says that keeps epochs; one silent witness when the list of peers cannot be read.
  package func witness(epoch: Int64) async -> [EpochTestimony] {
    await registry.refresh()
    guard registry.hasBeenRead else { return [EpochTestimony(peer: nil, epoch: nil)] }
    return await ask(registry.peers.filter(\.isActive), EpochMessage(epoch: epoch))
  }

  /// - Returns: in no order; nothing of those that do not know the route: an older relay, or another make.
  private func ask(_ peers: [KnownPeer], _ message: EpochMessage) async -> [EpochTestimony] {
    let asking = Task {
      await withTaskGroup(of: EpochTestimony?.self) { group in
        var testimonies: [EpochTestimony] = []
        var waiting = peers[...]
        for peer in waiting.prefix(Self.asksMax) { group.addTask { await ask(peer, message) } }
        waiting = waiting.dropFirst(Self.asksMax)
        while let testimony = await group.next() {
          if let testimony { testimonies.append(testimony) }
          if let peer = waiting.popFirst() { group.addTask { await ask(peer, message) } }
        }
        return testimonies
      }
    }
    let timer = Countdown(of: timeout) { asking.cancel() }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
      await asking.value
    } onCancel: {
      asking.cancel()
    }
  }

  /// - Returns: nil where the peer keeps no epochs.
  private func ask(_ peer: KnownPeer, _ message: EpochMessage) async -> EpochTestimony? {
    do {
      let answer = try await transport.send(.put("/v1/federation/epoch", message.json), to: peer)
      switch answer.status {
      case 200:
        let epoch = try EpochMessage.decode(answer.body.readableBytesUInt8Span.bytes).epoch
        return EpochTestimony(peer: peer.name, epoch: epoch)
      case 404: return nil
      default: return EpochTestimony(peer: peer.name, epoch: nil)
      }
    } catch {
      // Why is nothing to decide by; the transport logs it.
      return EpochTestimony(peer: peer.name, epoch: nil)
    }
  }

  /// Peers that are asked at one time.
  private static let asksMax = 32
}
