import Crypto
package import RelayCore
import X509

/// Carries out the commands `relay peer invite`, `accept`, `list` and `set --url` on the stores of this relay.
package struct PeeringService: Sendable {
  let name: RelayName
  let endpoint: PeerEndpoint
  let credentials: FederationCredentials
  let addresses: PeerAddresses
  let store: any PeerStore
  let signals: any SignalBus
  let clock: WallClock
  let limits: PeerLimits

  /// - Parameter endpoint: `federation.url`.
  package init(
    endpoint: PeerEndpoint, credentials: FederationCredentials, addresses: PeerAddresses, store: any PeerStore,
    signals: any SignalBus, clock: WallClock, limits: PeerLimits = PeerLimits()
  ) {
    name = credentials.name
    self.endpoint = endpoint
    self.credentials = credentials
    self.addresses = addresses
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
    let code = InvitationCode(
      name: name, endpoint: endpoint, fingerprint: credentials.fingerprint, secret: secret,
      expires: clock.now().adding(lifetime), scopes: scopes)
    try await storing { () throws(StoreError) in try await store.saveInvitation(code.invitation) }
    return code
  }

  package var ourWords: AuthorityWords { AuthorityWords(credentials.fingerprint) }

  /// All peers, ascending by name.
  package func list() async throws(FederationError) -> [PeerDescription] {
    try await storing { () throws(StoreError) in try await store.peers() }
      .compactMap { KnownPeer($0) }.map { PeerDescription($0, ours: credentials.fingerprint) }
  }

  /// Looks whether `peer` serves at `endpoint`: by its own CA, under its own name.
  package func verify(_ peer: KnownPeer, at endpoint: PeerEndpoint) async throws(FederationError) {
    let chain: [Certificate]
    do throws(PeerFailure) {
      (chain, _) = try await CertificateProbe.presentedChain(
        byOneOf: try await addresses.ways(to: endpoint), timeout: limits.connectTimeout)
    } catch .privateAddress {
      throw FederationError(
        .privateAddress, "\(endpoint) leads to an address that is not a public one.",
        remedy: "If you mean to peer with a relay there, set `federation.allow-private` to true.")
    } catch {
      throw FederationError(
        .unreachable, "\(endpoint) could not be reached: \(error).",
        remedy: "Check the URL; with --force it is stored although nobody was found there.")
    }
    do throws(ChainFault) {
      guard let authority = peer.authority(of: chain[0]) else {
        throw ChainFault.unknownAuthority(subject: chain[0].issuer.description)
      }
      try await ChainCheck(role: .server(endpoint), now: clock.now()).verify(chain[0], by: authority)
      if let fault = peer.fault(of: chain[0]) { throw fault }
    } catch {
      throw FederationError(
        .wrongCertificate, "\(endpoint) does not prove to be \(peer.name): \(error).",
        remedy: "Check the URL with the other operator; --force stores it all the same.")
    }
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

extension PeerDescription {
  /// - Parameter ours: the fingerprint of our CA.
  package init(_ peer: KnownPeer, ours: [UInt8]) {
    self.init(
      peer.peer, url: peer.endpoint.text, ourWords: AuthorityWords(ours).description,
      theirWords: AuthorityWords(peer.fingerprint).description,
      theirNextWords: peer.fingerprints.dropFirst().first.map { AuthorityWords($0).description },
      authorityExpires: peer.authorityExpires, authorities: peer.fingerprints.map(\.hex))
  }
}

extension Peer.Scope {
  /// The scopes of an invitation that names none. `directory` allows everything that `lookup` allows.
  package static let usual: Set<Peer.Scope> = [.messages, .keys, .directory, .attachments]
}
