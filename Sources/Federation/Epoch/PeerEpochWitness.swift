import NIOCore
import RelayCore

/// Asks our peers how far our store's epoch had come, and has them remember how far it is now.
///
/// A peer can name any number: what is plausible is the caller's to judge.
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
  /// - Returns: an answer of each active peer that keeps epochs; nil alone when the list of peers cannot be read.
  package func witness(epoch: Int64) async -> [Int64?] {
    await registry.refresh()
    guard registry.hasBeenRead else { return [nil] }
    var answers: [Int64?] = []
    for testimony in await ask(registry.peers.filter(\.isActive), EpochMessage(epoch: epoch)) {
      switch testimony {
      case .epoch(let epoch): answers.append(epoch)
      case .missing: answers.append(nil)
      case .notKept: continue
      }
    }
    return answers
  }

  private enum Testimony: Sendable, Equatable {
    case epoch(Int64)
    /// The peer does not know the route: an older relay, or another make.
    case notKept
    case missing
  }

  /// - Returns: one testimony a peer, in no order.
  private func ask(_ peers: [KnownPeer], _ message: EpochMessage) async -> [Testimony] {
    let asking = Task {
      await withTaskGroup(of: Testimony.self) { group in
        var testimonies: [Testimony] = []
        var waiting = peers[...]
        for peer in waiting.prefix(Self.asksMax) { group.addTask { await ask(peer, message) } }
        waiting = waiting.dropFirst(Self.asksMax)
        while let testimony = await group.next() {
          testimonies.append(testimony)
          if let peer = waiting.popFirst() { group.addTask { await ask(peer, message) } }
        }
        return testimonies
      }
    }
    let timer = Task {
      // Cancelled when all have answered; then cancelling once more changes nothing.
      try? await Task.sleep(for: timeout)
      asking.cancel()
    }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
      await asking.value
    } onCancel: {
      asking.cancel()
    }
  }

  private func ask(_ peer: KnownPeer, _ message: EpochMessage) async -> Testimony {
    do {
      let answer = try await transport.send(.put("/v1/federation/epoch", message.json), to: peer)
      switch answer.status {
      case 200: return .epoch(try EpochMessage.decode(answer.body.readableBytesUInt8Span.bytes).epoch)
      case 404: return .notKept
      default: return .missing
      }
    } catch {
      return .missing  // Why is nothing to decide by; the transport logs it.
    }
  }

  /// Peers that are asked at one time.
  private static let asksMax = 32
}
