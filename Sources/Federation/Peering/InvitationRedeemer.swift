import Crypto
import Logging
import RelayCore
import X509

/// The inviter's side of a peering: makes a stranger who holds an invitation's secret a peer.
struct InvitationRedeemer: Sendable {
  let name: RelayName
  let endpoint: PeerEndpoint
  let store: any PeerStore
  let signals: any SignalBus
  let registry: PeerRegistry
  let clock: WallClock

  /// Safe to repeat by the same CA until the invitation expires: an answer lost on the way costs nothing.
  ///
  /// - Throws: `.peerRefused` when the certificate is for another name or the peer is suspended; `.nameTaken`, the invitation stays open then;
  ///   `.invitationRefused`, `.unavailable`.
  func redeem(
    _ request: RedemptionRequest, by connection: ConnectionIdentity, logger: Logger
  ) async throws(Problem) -> RedemptionAnswer {
    guard request.name == connection.name else { throw Problem(.peerRefused) }
    guard request.name != name else { throw Problem(.nameTaken) }
    // Only who holds a secret has all peers read.
    let secretHash = Array(SHA256.hash(data: request.secret))
    let isRedeemable = try await storing { () throws(StoreError) in
      try await store.isRedeemable(secretHash: secretHash, caFingerprint: connection.fingerprint, now: clock.now())
    }
    guard isRedeemable else { throw Problem(.invitationRefused) }
    let known = try await storing { () throws(StoreError) in try await store.peers() }.compactMap { KnownPeer($0) }
    for peer in known where (peer.name == request.name) != (peer.fingerprint == connection.fingerprint) {
      throw Problem(.nameTaken)
    }
    // Whom the operator suspended, `relay peer resume` brings back and nothing else.
    if known.contains(where: { $0.name == request.name && !$0.isActive }) { throw Problem(.peerRefused) }
    let invitation = try await storing { () throws(StoreError) in
      try await store.redeemInvitation(
        secretHash: secretHash, caFingerprint: connection.fingerprint, now: clock.now())
    }
    guard let invitation else { throw Problem(.invitationRefused) }
    let former = known.first { $0.name == request.name }?.peer
    try await save(request, by: connection, scopes: invitation.scopes, over: former)
    logger.notice("peer added", metadata: ["peer": "\(request.name)", "url": "\(request.endpoint)"])
    return RedemptionAnswer(name: name, endpoint: endpoint)
  }

  private func save(
    _ request: RedemptionRequest, by connection: ConnectionIdentity, scopes: Set<Peer.Scope>, over former: Peer?
  ) async throws(Problem) {
    let peer = Peer(
      invited: request.name, at: request.endpoint, caCertificate: connection.authorityDER, scopes: scopes,
      over: former, now: clock.now())
    let isSaved = try await storing { () throws(StoreError) in try await store.savePeer(peer) }
    guard isSaved else { throw Problem(.nameTaken) }
    await signals.publish(.peersChanged)
    // The new peer's next request, on this very connection, finds itself known.
    await registry.refresh()
  }
}

extension Peer {
  /// What an invitation makes of a relay.
  ///
  /// One that is a peer already keeps its scopes and its policy: an old invitation, redeemed again, must not widen what
  /// `relay peer set` has narrowed.
  init(
    invited name: RelayName, at endpoint: PeerEndpoint, caCertificate: [UInt8], scopes: Set<Peer.Scope>,
    over former: Peer?, now: Timestamp
  ) {
    self.init(
      name: name, url: endpoint.text, caCertificate: caCertificate, state: .active, scopes: former?.scopes ?? scopes,
      added: former?.added ?? now, policy: former?.policy ?? PeerPolicy())
  }
}
