import Hummingbird
import RelayCore

/// A request on the federation listener, before it is known whether a peer sent it.
struct FederationContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  /// nil only where there was no handshake, which is nowhere but in a test.
  let connection: ConnectionIdentity?
  /// Set by `PeerGate` for an active peer.
  var peer: KnownPeer?

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    connection = ConnectionIdentity.current
  }
}

/// A request of an active peer.
struct PeerContext: ChildRequestContext {
  var coreContext: CoreRequestContextStorage
  /// By which a request that takes long proves its peer again.
  let connection: ConnectionIdentity?
  let peer: KnownPeer

  init(context: FederationContext) throws {
    guard let peer = context.peer else { throw Problem(.peerRefused) }
    coreContext = context.coreContext
    connection = context.connection
    self.peer = peer
  }
}
