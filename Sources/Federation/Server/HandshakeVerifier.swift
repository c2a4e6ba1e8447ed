import Logging
import NIOCore
import NIOSSL
import RelayCore
import X509

/// Decides in the TLS handshake whether a client may connect (docs/federation.md, "Identity").
///
/// A certificate proves a peer when the CA of that very peer, or the successor that it named, signed it for client use,
/// it is valid now and not revoked, and its `relay:NAME` is the peer's name. While an invitation is open, a certificate
/// of a CA that we do not know may connect too; what such a stranger may do is up to `PeerGate`. A suspended peer may
/// connect as well, and `PeerGate` refuses its requests: a failed handshake would read as a refused certificate.
struct HandshakeVerifier: Sendable {
  private let registry: PeerRegistry
  private let store: any PeerStore
  private let seen: SeenLeaves
  private let clock: WallClock
  private let refusals = RefusalLog()

  /// - Parameter seen: is told the leaf of every peer that connects.
  init(registry: PeerRegistry, store: any PeerStore, seen: SeenLeaves, clock: WallClock) {
    self.registry = registry
    self.store = store
    self.seen = seen
    self.clock = clock
  }

  /// A callback for one connection; it takes the place of BoringSSL's own check.
  func callback(remote: String, logger: Logger) -> NIOSSLCustomVerificationCallbackWithMetadata {
    { presented, promise in
      promise.completeWithTask {
        do throws(ChainFault) {
          let (chain, peer) = try await verify(presented)
          if let peer, !peer.isActive {
            note(.suspended(peer.name), of: remote, "federation: peer refused", logger)
          }
          return .certificateVerified(VerificationMetadata(chain))
        } catch {
          note(error, of: remote, "federation: handshake refused", logger)
          return .failed
        }
      }
    }
  }

  private func note(_ fault: ChainFault, of remote: String, _ what: Logger.Message, _ logger: Logger) {
    guard let count = refusals.count(remote: remote, reason: fault.kind) else { return }
    logger.warning(what, metadata: ["remote": "\(remote)", "reason": "\(fault)", "count": "\(count)"])
  }

  /// - Parameter presented: as the client sent them, leaf first; nothing about them is checked yet.
  /// - Returns: leaf and CA, and the peer that they prove, active or suspended; no peer for a stranger.
  private func verify(
    _ presented: [NIOSSLCertificate]
  ) async throws(ChainFault) -> (chain: NIOSSL.ValidatedCertificateChain, peer: KnownPeer?) {
    guard (1...Self.chainLengthMax).contains(presented.count), let leaf = Self.read(presented[0]) else {
      throw .unreadable
    }
    let check = ChainCheck(role: .client, now: clock.now())
    guard let peer = await issuer(of: leaf), let authority = peer.authority(of: leaf) else {
      return (try await verifyStranger(leaf, presented, check), nil)
    }
    try await check.verify(leaf, by: authority)
    if let fault = peer.fault(of: leaf) { throw fault }
    if peer.isActive { seen.note(leaf, of: peer.name) }
    return (try Self.chain(leaf: presented[0], authority: authority), peer)
  }

  private func issuer(of leaf: Certificate) async -> KnownPeer? {
    if let peer = registry.current.issuer(of: leaf), peer.isActive { return peer }
    await registry.refresh()
    return registry.current.issuer(of: leaf)
  }

  /// The leaf must be signed by the CA that is presented with it: it proves the key of that CA and nothing more.
  private func verifyStranger(
    _ leaf: Certificate, _ presented: [NIOSSLCertificate], _ check: ChainCheck
  ) async throws(ChainFault) -> NIOSSL.ValidatedCertificateChain {
    guard await hasOpenInvitation(),
      let authority = presented.dropFirst().lazy.compactMap(Self.read).first(where: leaf.isIssued(by:)),
      authority.isAuthority
    else { throw .unknownAuthority(subject: leaf.issuer.description) }
    try await check.verify(leaf, by: authority)
    guard leaf.relayName != nil else { throw .noName }
    return try Self.chain(leaf: presented[0], authority: authority)
  }

  private func hasOpenInvitation() async -> Bool {
    do {
      return try await store.hasOpenInvitation(now: clock.now())
    } catch {
      // A store that is away redeems no invitation: the stranger may as well come later.
      return false
    }
  }

  /// A leaf, its CA, and room for a CA's former certificate.
  private static let chainLengthMax = 4

  private static func read(_ certificate: NIOSSLCertificate) -> Certificate? {
    try? Certificate(certificate)  // what cannot be parsed proves nothing; why does not matter
  }

  private static func chain(
    leaf: NIOSSLCertificate, authority: Certificate
  ) throws(ChainFault) -> NIOSSL.ValidatedCertificateChain {
    do {
      return NIOSSL.ValidatedCertificateChain([leaf, try NIOSSLCertificate(bytes: authority.der, format: .der)])
    } catch {
      throw .unreadable
    }
  }
}
