import Crypto
import FoundationEssentials
import RelayCore
import SwiftASN1
import X509

/// An operator's own CA: a P-256 key and its self-signed certificate.
///
/// Peers know the operator by this key alone; it signs nothing but this relay's leaves and statements.
struct CertificateAuthority: Sendable {
  /// Far longer than a peering is likely to stand unchanged.
  static let lifetime = Duration.seconds(3650 * 86_400)
  /// Short enough that a stolen leaf key dies soon, long enough that renewing monthly has slack.
  static let leafLifetime = Duration.seconds(90 * 86_400)
  /// Certificates begin this long before they are made: other operators' clocks may run behind ours.
  static let clockSlack = Duration.seconds(-300)

  let certificate: Certificate
  let key: Certificate.PrivateKey

  init(certificate: Certificate, key: Certificate.PrivateKey) {
    self.certificate = certificate
    self.key = key
  }

  /// `CN=NAME relay CA`: a CA says itself whose it is, so that nobody can pass it off as his own successor.
  static func subject(for name: RelayName) throws -> DistinguishedName {
    try DistinguishedName { CommonName("\(name) relay CA") }
  }

  /// Makes a new key and certificate.
  init(for name: RelayName, now: Timestamp) throws {
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let subject = try Self.subject(for: name)
    let extensions = try Certificate.Extensions {
      Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
      Critical(KeyUsage(keyCertSign: true))
      SubjectKeyIdentifier(hash: key.publicKey)
    }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey,
      notValidBefore: now.adding(Self.clockSlack).date, notValidAfter: now.adding(Self.lifetime).date,
      issuer: subject, subject: subject, extensions: extensions, issuerPrivateKey: key)
    self.init(certificate: certificate, key: key)
  }

  /// Signs a leaf that proves `name` and serves as both ends of a TLS connection at `endpoint`.
  func issue(
    for name: RelayName, at endpoint: PeerEndpoint, key leafKey: Certificate.PublicKey, now: Timestamp
  ) throws -> Certificate {
    let subject = try DistinguishedName { CommonName("\(name) relay") }
    let host: GeneralName =
      if let address = endpoint.addressBytes {
        .ipAddress(ASN1OctetString(contentBytes: address[...]))
      } else {
        .dnsName(endpoint.host)
      }
    let extensions = try Certificate.Extensions {
      Critical(BasicConstraints.notCertificateAuthority)
      Critical(KeyUsage(digitalSignature: true))
      try ExtendedKeyUsage([.serverAuth, .clientAuth])
      SubjectAlternativeNames([host, .uniformResourceIdentifier(Certificate.relayScheme + name.text)])
      SubjectKeyIdentifier(hash: leafKey)
      AuthorityKeyIdentifier(keyIdentifier: SubjectKeyIdentifier(hash: certificate.publicKey).keyIdentifier)
    }
    // A leaf that outlived its CA would fail without a word of why.
    let end = min(now.adding(Self.leafLifetime), certificate.validUntil)
    return try Certificate(
      version: .v3, serialNumber: .init(), publicKey: leafKey,
      notValidBefore: now.adding(Self.clockSlack).date, notValidAfter: end.date,
      issuer: certificate.subject, subject: subject, extensions: extensions, issuerPrivateKey: key)
  }
}
