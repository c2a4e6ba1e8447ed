package import Logging
import RelayCore
import RelayHTTP
import ServiceLifecycle
import SwiftASN1
import Synchronization
import X509

/// The HTTP clients of all peers, one each.
///
/// A peer's client is replaced when its CA or URL changes or our own certificate does, and dropped when it is no
/// active peer any more; requests under way end on the old one.
package final class PeerTransport: Service {
  private struct Entry {
    let client: PeerClient
    let endpoint: PeerEndpoint
    let authority: Certificate
    let leaf: Certificate
  }

  private let identity: FederationIdentity
  private let registry: PeerRegistry
  private let limits: PeerLimits
  private let logger: Logger
  private let entries = Mutex<[RelayName: Entry]>([:])
  private let failing = Mutex<Set<RelayName>>([])

  package init(identity: FederationIdentity, registry: PeerRegistry, limits: PeerLimits = PeerLimits(), logger: Logger)
  {
    self.identity = identity
    self.registry = registry
    self.limits = limits
    self.logger = logger
  }

  /// Sends `request`; logs when a peer stops or begins to answer.
  func send(_ request: PeerRequest, to peer: KnownPeer) async throws(PeerFailure) -> PeerAnswer {
    do throws(PeerFailure) {
      let answer = try await sendOnce(request, to: peer)
      if failing.withLock({ $0.remove(peer.name) }) != nil {
        logger.notice("peer answers again", metadata: ["peer": "\(peer.name)"])
      }
      return answer
    } catch {
      if error != .cancelled, failing.withLock({ $0.insert(peer.name).inserted }) {
        logger.warning("peer does not answer", metadata: ["peer": "\(peer.name)", "reason": "\(error)"])
      }
      throw error
    }
  }

  private func sendOnce(_ request: PeerRequest, to peer: KnownPeer) async throws(PeerFailure) -> PeerAnswer {
    do throws(PeerFailure) {
      return try await client(of: peer).send(request)
    } catch .retired {
      // Replaced between being looked up and used: nothing was sent.
      return try await client(of: peer).send(request)
    }
  }

  /// Drops the clients of former peers from time to time, and all of them at shutdown.
  package func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      while !Task.isCancelled {
        // Only cancellation throws here, and the loop's condition sees it.
        try? await Task.sleep(for: .seconds(5))
        drop { registry.current.byName[$0]?.isActive != true }
      }
    }
    close()
  }

  /// Every client's connections are closed after its last request.
  package func close() { drop { _ in true } }

  private func client(of peer: KnownPeer) throws(PeerFailure) -> PeerClient {
    let credentials = identity.credentials
    func isCurrent(_ entry: Entry) -> Bool {
      entry.endpoint == peer.endpoint && entry.authority == peer.authority && entry.leaf == credentials.leaf
    }
    if let entry = entries.withLock({ $0[peer.name] }), isCurrent(entry) { return entry.client }
    let client: PeerClient
    do {
      client = try PeerClient(
        endpoint: peer.endpoint, authority: peer.authority, credentials: credentials, limits: limits)
    } catch {
      throw .handshake(reason: "\(error)")
    }
    let made = Entry(client: client, endpoint: peer.endpoint, authority: peer.authority, leaf: credentials.leaf)
    let (used, replaced) = entries.withLock { entries -> (Entry, Entry?) in
      // Another request may have made one meanwhile.
      if let entry = entries[peer.name], isCurrent(entry) { return (entry, made) }
      return (made, entries.updateValue(made, forKey: peer.name))
    }
    replaced?.client.retire()
    return used.client
  }

  private func drop(where isGone: (RelayName) -> Bool) {
    let gone = entries.withLock { entries in
      let gone = entries.filter { isGone($0.key) }
      for name in gone.keys { entries[name] = nil }
      return gone
    }
    for entry in gone.values { entry.client.retire() }
    for name in gone.keys { failing.withLock { _ = $0.remove(name) } }
  }
}
