import NIOCore
package import RelayCore
import RelayHTTP
import X509

extension PeeringService {
  /// The peering that an invitation would make with the inviter. Stores nothing, and sends no request.
  ///
  /// - Parameter scopes: the most that the inviter may be granted; nil for all that the invitation says. If the
  ///   inviter is a peer already, its scopes stay, or are narrowed to these.
  package func offer(_ text: String, scopes: Set<Peer.Scope>? = nil) async throws(FederationError) -> PeeringOffer {
    let code = try InvitationCode(text)
    let former = try await check(code)
    let covered = former?.scopes ?? code.scopes
    let grants = scopes.map { covered.intersection($0) } ?? covered
    if scopes != nil, grants.isEmpty {
      throw FederationError(
        .nothingGranted,
        "Nothing of --scope is covered: \(former == nil ? "the invitation says" : "the peer has")"
          + " \(covered.sorted().map(\.rawValue).joined(separator: ", ")).",
        remedy: "Name at least one of these.")
    }
    return PeeringOffer(
      code: code, former: former, grants: grants, ourWords: AuthorityWords(credentials.fingerprint))
  }

  /// Redeems an invitation: on return both sides list each other as active.
  ///
  /// Safe to repeat with the same invitation until it expires, so a failure half-way is mended by another try.
  package func accept(_ offer: PeeringOffer) async throws(FederationError) -> AcceptedPeering {
    let code = offer.code
    let (authority, way) = try await fetchAuthority(code)
    let client = try connect(by: way, trusting: authority)
    defer { client.retire() }
    let answer = try await redeem(code, through: client)
    let peer = try await save(offer, authority)
    try await confirm(code, through: client)
    return AcceptedPeering(
      peer: PeerDescription(peer, ours: credentials.fingerprint), gets: (answer.scopes ?? code.scopes).sorted())
  }

  /// - Returns: the inviter, if it is a peer already.
  private func check(_ code: InvitationCode) async throws(FederationError) -> Peer? {
    guard clock.now() < code.expires else {
      throw FederationError(
        .expiredInvitation, "The invitation expired \(code.expires.iso8601).",
        remedy: "Ask the other operator for a new one; if it was made just now, compare your clocks.")
    }
    guard code.fingerprint != credentials.fingerprint else {
      throw FederationError(
        .ownInvitation, "This invitation was made by this relay.", remedy: "Accept it on the other operator's relay.")
    }
    guard code.name != name else {
      throw FederationError(
        .nameTaken, "The inviting relay calls itself \"\(name)\", as this one does.",
        remedy: "One of you has to choose another `name` and run `relay ca issue`.")
    }
    let known = try await storing { () throws(StoreError) in try await store.peers() }.compactMap { KnownPeer($0) }
    for peer in known where (peer.name == code.name) != (peer.fingerprint == code.fingerprint) {
      throw conflict(of: code.name, with: peer)
    }
    guard let former = known.first(where: { $0.name == code.name }) else { return nil }
    guard former.isActive else {
      throw FederationError(
        .refused, "\(code.name) is a suspended peer.", remedy: "Run `relay peer resume \(code.name)` first.")
    }
    guard former.endpoint == code.endpoint else {
      throw FederationError(
        .refused, "\(code.name) is a peer at \(former.endpoint), and the invitation says \(code.endpoint).",
        remedy: "If it has moved, run `relay peer set \(code.name) --url \(code.endpoint)` first.")
    }
    return former.peer
  }

  private func conflict(of name: RelayName, with peer: KnownPeer) -> FederationError {
    peer.name == name
      ? FederationError(
        .nameTaken, "Another relay with another CA is already a peer under the name \"\(name)\".",
        remedy: "If it is the same operator with a new CA, run `relay peer remove \(name)` first.")
      : FederationError(
        .nameTaken, "The inviting relay's CA is already a peer under the name \"\(peer.name)\", not \"\(name)\".",
        remedy: "If the operator has renamed the relay, run `relay peer remove \(peer.name)` first.")
  }

  /// The inviter's CA as it presents it, if it is the one that the invitation names, and the way that led there.
  private func fetchAuthority(_ code: InvitationCode) async throws(FederationError) -> (Certificate, PeerWay) {
    let chain: [Certificate]
    let way: PeerWay
    do throws(PeerFailure) {
      (chain, way) = try await CertificateProbe.presentedChain(
        byOneOf: try await addresses.ways(to: code.endpoint), timeout: limits.connectTimeout)
    } catch .privateAddress {
      throw FederationError(
        .privateAddress, "The invitation's URL, \(code.endpoint), leads to an address that is not a public one.",
        remedy: "If you mean to peer with a relay there, set `federation.allow-private` to true; else do not go on.")
    } catch {
      throw FederationError(
        .unreachable, "\(code.endpoint) could not be reached: \(error).",
        remedy: "Check that the inviting relay runs and that this host may connect to that address.")
    }
    guard let authority = chain.first(where: { constantTimeEquals($0.keyFingerprint, code.fingerprint) }) else {
      throw FederationError(
        .wrongFingerprint, "\(code.endpoint) presented another CA than the invitation names.",
        remedy: "Do not go on: something stands between you, or the relay has a new CA. Ask for a new invitation.")
    }
    do throws(ChainFault) {
      try await ChainCheck(role: .server(code.endpoint), now: clock.now()).verify(chain[0], by: authority)
      guard chain[0].relayName == code.name else {
        throw ChainFault.wrongName(found: chain[0].relayName, expected: code.name)
      }
    } catch {
      throw FederationError(
        .wrongCertificate, "\(code.endpoint) presented a certificate that cannot be used: \(error).",
        remedy: "The other operator has to run `relay ca issue` with the right `name` and `federation.url`.")
    }
    return (authority, way)
  }

  private func connect(by way: PeerWay, trusting authority: Certificate) throws(FederationError) -> PeerClient {
    do {
      return try PeerClient(way: way, authorities: [authority], credentials: credentials, limits: limits)
    } catch {
      throw FederationError(
        .wrongCertificate, "The certificates cannot be used for a connection: \(FaultWords.of(error)).",
        remedy: "Run `relay ca issue` to make a new leaf.")
    }
  }

  private func redeem(
    _ code: InvitationCode, through client: PeerClient
  ) async throws(FederationError) -> RedemptionAnswer {
    let request = RedemptionRequest(secret: code.secret, name: name, endpoint: endpoint)
    let answer = try await ask(.put(PeeringStatus.path, request.json), at: code.endpoint, through: client)
    let body = answer.body.readableBytesUInt8Span.bytes
    // An answer that cannot be decoded is reported by its status: its bytes still come from a stranger.
    guard let inviter = try? RedemptionAnswer.decode(body), inviter.name == code.name else {
      throw unexpected(answer, from: code.endpoint)
    }
    return inviter
  }

  private func save(_ offer: PeeringOffer, _ authority: Certificate) async throws(FederationError) -> KnownPeer {
    let code = offer.code
    if offer.isPeerAlready { return try await narrow(offer) }
    let bytes: [UInt8]
    do {
      bytes = try authority.der
    } catch {
      throw FederationError(.wrongCertificate, "The inviter's CA cannot be stored: \(error).", remedy: "Report this.")
    }
    let peer = Peer(
      invited: code.name, at: code.endpoint, caCertificate: bytes, scopes: offer.grants, now: clock.now())
    let known = KnownPeer(peer: peer, authority: authority, endpoint: code.endpoint)
    guard try await storing({ () throws(StoreError) in try await store.savePeer(peer) }) else {
      throw conflict(of: code.name, with: known)
    }
    await signals.publish(.peersChanged)
    return known
  }

  /// For a relay that is a peer already, only its scopes may change, and only to fewer.
  private func narrow(_ offer: PeeringOffer) async throws(FederationError) -> KnownPeer {
    if offer.grants != offer.former?.scopes {
      _ = try await storing { () throws(StoreError) in try await store.setPeerScopes(offer.grants, of: offer.name) }
      await signals.publish(.peersChanged)
    }
    let peers = try await storing { () throws(StoreError) in try await store.peers() }
    guard let peer = peers.first(where: { $0.name == offer.name }).flatMap({ KnownPeer($0) }) else {
      throw FederationError(
        .unknownPeer, "\(offer.name) was removed meanwhile.", remedy: "Accept the invitation again.")
    }
    return peer
  }

  private func confirm(_ code: InvitationCode, through client: PeerClient) async throws(FederationError) {
    let answer = try await ask(.get(PeeringStatus.path), at: code.endpoint, through: client)
    // As above.
    guard let status = try? PeeringStatus.decode(answer.body.readableBytesUInt8Span.bytes) else {
      throw unexpected(answer, from: code.endpoint)
    }
    guard status.name == name, status.state == .active else {
      throw FederationError(
        .refused, "The inviting relay has this one as \"\(status.name)\", \(status.state.rawValue).",
        remedy: "Ask its operator to look at `relay peer list`.")
    }
  }
}

/// An invitation as `relay peer accept` shows it before anything is stored, here or at the inviter.
package struct PeeringOffer: Sendable {
  let code: InvitationCode
  /// The inviter as the store has it already.
  let former: Peer?
  /// The scopes that the inviter may ask of us.
  package let grants: Set<Peer.Scope>
  package let ourWords: AuthorityWords

  package var name: RelayName { code.name }
  package var url: String { code.endpoint.text }
  /// The scopes that we may ask of the inviter, as the invitation says.
  package var gets: Set<Peer.Scope> { code.scopes }
  /// The words of the CA that the invitation names. The inviter will have to prove this CA.
  package var theirWords: AuthorityWords { AuthorityWords(code.fingerprint) }
  /// Whether nothing but the way to the peer is tried, and its scopes stay as the operator set them.
  package var isPeerAlready: Bool { former != nil }
}

/// A peering that stands on both sides.
package struct AcceptedPeering: Sendable {
  package let peer: PeerDescription
  /// The scopes that we may ask of the peer, as the peer says.
  package let gets: [Peer.Scope]
}
