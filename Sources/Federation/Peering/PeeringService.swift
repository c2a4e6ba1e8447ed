import Crypto
package import RelayCore

/// What the commands `relay peer invite`, `accept` and `list` do, on the stores of this relay.
package struct PeeringService: Sendable {
  let name: RelayName
  let endpoint: PeerEndpoint
  let credentials: FederationCredentials
  let store: any PeerStore
  let signals: any SignalBus
  let clock: WallClock
  let limits: PeerLimits

  /// - Parameter endpoint: `federation.url`.
  package init(
    endpoint: PeerEndpoint, credentials: FederationCredentials, store: any PeerStore, signals: any SignalBus,
    clock: WallClock, limits: PeerLimits = PeerLimits()
  ) {
    name = credentials.name
    self.endpoint = endpoint
    self.credentials = credentials
    self.store = store
    self.signals = signals
    self.clock = clock
    self.limits = limits
  }

  /// Makes an invitation. Only its hash is kept: the word that is returned cannot be shown again.
  ///
  /// - Parameters:
  ///   - lifetime: how long it can be redeemed; it can be redeemed once.
  ///   - scopes: what each side may ask of the other.
  package func invite(
    validFor lifetime: Duration = .seconds(24 * 3600), scopes: Set<Peer.Scope> = Peer.Scope.usual
  ) async throws(FederationError) -> InvitationCode {
    var random = SystemRandomNumberGenerator()
    let secret = (0..<InvitationCode.secretByteCount).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    let expires = clock.now().adding(lifetime)
    let invitation = Invitation(secretHash: Array(SHA256.hash(data: secret)), expires: expires, scopes: scopes)
    try await storing { () throws(StoreError) in try await store.saveInvitation(invitation) }
    return InvitationCode(
      name: name, endpoint: endpoint, fingerprint: credentials.fingerprint, secret: secret, expires: expires,
      scopes: scopes)
  }

  /// All peers, ascending by name.
  package func list() async throws(FederationError) -> [PeerDescription] {
    try await storing { () throws(StoreError) in try await store.peers() }
      .compactMap { KnownPeer($0) }.map { PeerDescription($0, ours: credentials.fingerprint) }
  }

  /// Retypes a failure of the store.
  func storing<T: Sendable>(_ call: () async throws(StoreError) -> T) async throws(FederationError) -> T {
    do throws(StoreError) {
      return try await call()
    } catch {
      throw FederationError(error)
    }
  }
}
