import Crypto
import Logging
import RelayCore
import X509

/// The inviter's side of a peering: makes a stranger who holds an invitation's secret a peer.
struct InvitationRedeemer: Sendable {
  let name: RelayName
  let endpoint: PeerEndpoint
  let addresses: PeerAddresses
  let store: any PeerStore
  let signals: any SignalBus
  let registry: PeerRegistry
  let clock: WallClock

  /// A peer's list changes seldom: that it does so again and again between two steps of ours is no chance.
  private static let attemptsMax = 8

  /// Makes the holder of the certificate a peer, by what the invitation says, once: name, CA, URL and scopes are the
  /// operator's to change from then on.
  ///
  /// Safe to repeat by the same CA with the same URL until the invitation expires: an answer lost on the way costs
  /// nothing.
  ///
  /// - Throws: `.addressRefused` when we would not connect to its URL; `.peerRefused` when the certificate is for
  ///   another name or the peer is suspended; `.nameTaken` and `.urlFixed`, the invitation stays as it was then;
  ///   `.invitationRefused`, `.unavailable`.
  func redeem(
    _ request: RedemptionRequest, by connection: ConnectionIdentity, logger: Logger
  ) async throws(Problem) -> RedemptionAnswer {
    guard request.name == connection.name else { throw Problem(.peerRefused) }
    guard request.name != name else { throw Problem(.nameTaken) }
    // A name is not looked up for a stranger: what it leads to is judged whenever it is connected to.
    guard addresses.isAcceptable(request.endpoint) else { throw Problem(.addressRefused) }
    let secretHash = Array(SHA256.hash(data: request.secret))
    for _ in 0..<Self.attemptsMax {
      // Only who holds a secret has all peers read.
      let invitation = try await storing { () throws(StoreError) in
        try await store.redeemableInvitation(
          secretHash: secretHash, caFingerprint: connection.fingerprint, now: clock.now())
      }
      guard let invitation else { throw Problem(.invitationRefused) }
      let revision = try await storing { () throws(StoreError) in try await store.peersRevision() }
      let peers = try await storing { () throws(StoreError) in try await store.peers() }
      let known = try self.known(request, by: connection, among: peers)
      let added =
        known == nil
        ? Peer(
          invited: request.name, at: request.endpoint, caCertificate: connection.authorityDER,
          scopes: invitation.scopes, now: clock.now()) : nil
      let redemption = try await storing { () throws(StoreError) in
        try await store.redeemInvitation(
          secretHash: secretHash, caFingerprint: connection.fingerprint, adding: added, judgedAt: revision,
          now: clock.now())
      }
      switch redemption {
      case .refused: throw Problem(.invitationRefused)
      case .outdated: continue
      case .redeemed: break
      }
      if let added { await announce(added, by: connection, logger: logger) }
      return RedemptionAnswer(name: name, endpoint: endpoint, scopes: known?.peer.scopes ?? invitation.scopes)
    }
    throw Problem(.unavailable, retryAfter: .seconds(1), reason: "the list of peers changes all the time")
  }

  /// The peer that the redeemer is already; nil when it is none.
  private func known(
    _ request: RedemptionRequest, by connection: ConnectionIdentity, among peers: [Peer]
  ) throws(Problem) -> KnownPeer? {
    for peer in peers where peer.name != request.name {
      // A CA speaks for one name, also one that a peer has named as its successor.
      guard KnownPeer(peer)?.fingerprints.contains(connection.fingerprint) != true else { throw Problem(.nameTaken) }
    }
    guard let peer = peers.first(where: { $0.name == request.name }) else { return nil }
    guard let known = KnownPeer(peer), known.fingerprint == connection.fingerprint else { throw Problem(.nameTaken) }
    // Only `relay peer resume` brings back a peer that the operator suspended.
    guard known.isActive else { throw Problem(.peerRefused) }
    guard known.endpoint == request.endpoint else { throw Problem(.urlFixed) }
    return known
  }

  private func announce(_ peer: Peer, by connection: ConnectionIdentity, logger: Logger) async {
    logger.notice(
      "peer added",
      metadata: [
        "peer": "\(peer.name)", "url": "\(peer.url)", "words": "\(AuthorityWords(connection.fingerprint))",
      ])
    await signals.publish(.peersChanged)
    // The new peer's next request, on this very connection, finds itself known.
    await registry.refresh()
  }
}

extension Peer {
  /// The peer that an invitation makes of a relay that is no peer yet.
  init(
    invited name: RelayName, at endpoint: PeerEndpoint, caCertificate: [UInt8], scopes: Set<Peer.Scope>, now: Timestamp
  ) {
    self.init(
      name: name, url: endpoint.text, caCertificate: caCertificate, state: .active, scopes: scopes, added: now)
  }
}
