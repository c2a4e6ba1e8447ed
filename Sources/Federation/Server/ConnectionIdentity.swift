import NIOCore
import NIOSSL
import RelayCore
import X509

/// The identity that the certificate of a connection proved: a CA's key, and the name that the CA gave.
///
/// Every request checks anew whether this identity is a peer of ours.
struct ConnectionIdentity: Sendable {
  /// Set around everything that a connection's requests run in.
  @TaskLocal static var current: ConnectionIdentity?

  let name: RelayName
  /// The CA certificate.
  let authorityDER: [UInt8]
  /// SHA-256 of the CA's public key.
  let fingerprint: [UInt8]
  /// The leaf's serial number, as `Certificate.serial`.
  let serial: [UInt8]
  /// Connections may outlive their certificate; what they may do does not.
  let validUntil: Timestamp

  /// - Parameter chain: leaf and CA, verified in the handshake.
  /// - Returns: nil when the chain is not one that `HandshakeVerifier` returns.
  init?(_ chain: NIOSSL.ValidatedCertificateChain) {
    // It was parsed in the handshake; a failure here means that it is none of ours.
    guard chain.count == 2, let leaf = try? Certificate(chain[0]), let authority = try? Certificate(chain[1]),
      let authorityBytes = try? authority.der, let name = leaf.relayName
    else { return nil }
    self.name = name
    authorityDER = authorityBytes
    fingerprint = authority.keyFingerprint
    serial = leaf.serial
    validUntil = min(leaf.validUntil, authority.validUntil)
  }

  /// - Returns: nil for a resumed session, whose certificate was not shown.
  static func of(_ channel: any Channel) async -> ConnectionIdentity? {
    do {
      return try await channel.nioSSL_peerValidatedCertificateChain().get().flatMap(ConnectionIdentity.init)
    } catch {
      return nil  // The handler is gone: the connection is closed.
    }
  }
}

extension PeerTable {
  /// The active peer that `connection` proves. When its certificate ends is the caller's to ask.
  func peer(proving connection: ConnectionIdentity) -> KnownPeer? {
    peer(knownBy: connection).flatMap { $0.isActive ? $0 : nil }
  }

  /// The peer that `connection` proves, also while it is suspended: by its CA, by its name, and by a leaf that is not
  /// revoked.
  func peer(knownBy connection: ConnectionIdentity) -> KnownPeer? {
    guard let peer = peer(fingerprint: connection.fingerprint), peer.name == connection.name,
      !peer.isRevoked(connection.serial)
    else { return nil }
    return peer
  }
}
