import NIOCore
import RelayCore
import X509

extension PeeringService {
  /// Redeems an invitation: on return both sides list each other as active.
  ///
  /// Safe to repeat with the same invitation until it expires, so a failure half-way is mended by another try.
  package func accept(_ text: String) async throws(FederationError) -> PeerDescription {
    let code = try InvitationCode(text)
    try await check(code)
    let authority = try await fetchAuthority(code)
    let client = try connect(to: code.endpoint, trusting: authority)
    defer { client.retire() }
    try await redeem(code, through: client)
    let peer = try await save(code, authority)
    try await confirm(code, through: client)
    return PeerDescription(peer, ours: credentials.fingerprint)
  }

  private func check(_ code: InvitationCode) async throws(FederationError) {
    guard clock.now() < code.expires else {
      throw FederationError(
        .expiredInvitation, "The invitation expired \(code.expires.text).",
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

  /// The inviter's CA as it presents it, if it is the one that the invitation names.
  private func fetchAuthority(_ code: InvitationCode) async throws(FederationError) -> Certificate {
    let chain: [Certificate]
    do {
      chain = try await CertificateProbe.presentedChain(at: code.endpoint, timeout: limits.connectTimeout)
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
    return authority
  }

  private func connect(to endpoint: PeerEndpoint, trusting authority: Certificate) throws(FederationError) -> PeerClient
  {
    do {
      return try PeerClient(endpoint: endpoint, authorities: [authority], credentials: credentials, limits: limits)
    } catch {
      throw FederationError(
        .wrongCertificate, "The certificates cannot be used for a connection: \(error).",
        remedy: "Run `relay ca issue` to make a new leaf.")
    }
  }

  private func redeem(_ code: InvitationCode, through client: PeerClient) async throws(FederationError) {
    let request = RedemptionRequest(secret: code.secret, name: name, endpoint: endpoint)
    let answer = try await ask(.put(Self.path, request.json), at: code.endpoint, through: client)
    let body = answer.body.readableBytesUInt8Span.bytes
    // What cannot be decoded is reported by its status: the bytes come from a stranger still.
    guard let inviter = try? RedemptionAnswer.decode(body), inviter.name == code.name else {
      throw unexpected(answer, from: code.endpoint)
    }
  }

  private func save(_ code: InvitationCode, _ authority: Certificate) async throws(FederationError) -> KnownPeer {
    let bytes: [UInt8]
    do {
      bytes = try authority.der
    } catch {
      throw FederationError(.wrongCertificate, "The inviter's CA cannot be stored: \(error).", remedy: "Report this.")
    }
    let former = try await storing { () throws(StoreError) in try await store.peers() }.first { $0.name == code.name }
    let peer = Peer(
      invited: code.name, at: code.endpoint, caCertificate: bytes, scopes: code.scopes, over: former,
      now: clock.now())
    let known = KnownPeer(peer: peer, authority: authority, endpoint: code.endpoint)
    guard try await storing({ () throws(StoreError) in try await store.savePeer(peer) }) else {
      throw conflict(of: code.name, with: known)
    }
    await signals.publish(.peersChanged)
    return known
  }

  private func confirm(_ code: InvitationCode, through client: PeerClient) async throws(FederationError) {
    let answer = try await ask(.get(Self.path), at: code.endpoint, through: client)
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
