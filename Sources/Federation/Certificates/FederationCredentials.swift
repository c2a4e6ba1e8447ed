import Crypto
import NIOSSL
package import RelayCore
import SwiftASN1
import X509

/// Our CA, our leaf and its key, as one consistent reading of the files: never a mixed pair.
package struct FederationCredentials: Sendable {
  package let name: RelayName
  let authority: Certificate
  let leaf: Certificate
  /// SHA-256 of our CA's public key, as invitations carry it.
  package let fingerprint: [UInt8]
  /// Leaf and CA, in the order in which they are presented.
  let chain: [NIOSSLCertificate]
  let key: NIOSSLPrivateKey

  /// When the leaf ends; peers refuse it from then on.
  package var leafExpires: Timestamp { leaf.validUntil }
  package var authorityExpires: Timestamp { authority.validUntil }

  init(name: RelayName, authority: Certificate, leaf: Certificate, key: Certificate.PrivateKey) throws {
    self.name = name
    self.authority = authority
    self.leaf = leaf
    fingerprint = authority.keyFingerprint
    chain = [
      try NIOSSLCertificate(bytes: leaf.der, format: .der), try NIOSSLCertificate(bytes: authority.der, format: .der),
    ]
    self.key = try NIOSSLPrivateKey(bytes: Array(key.serializeAsPEM().pemString.utf8), format: .pem)
  }

  /// The listener's side: TLS 1.3 only; a client without a certificate is refused. No root is trusted here:
  /// `HandshakeVerifier` decides which certificates are accepted.
  func serverContext() throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeServerConfigurationWithMTLS(
      certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key), trustRoots: .certificates([]))
    configuration.minimumTLSVersion = .tlsv13
    configuration.applicationProtocols = ["h2", "http/1.1"]
    return try NIOSSLContext(configuration: configuration)
  }

  /// Our side as a client of the relay whose CAs are `authorities`: nothing else is trusted, the host must match.
  func clientConfiguration(trusting authorities: [Certificate]) throws -> TLSConfiguration {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.minimumTLSVersion = .tlsv13
    configuration.certificateVerification = .fullVerification
    configuration.trustRoots = .certificates(
      try authorities.map { try NIOSSLCertificate(bytes: $0.der, format: .der) })
    configuration.certificateChain = chain.map { .certificate($0) }
    configuration.privateKey = .privateKey(key)
    return configuration
  }
}
