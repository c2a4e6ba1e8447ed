// Certificates for tests, good and bad: a real CA and leaves with any name, dates, usage and hosts.

package import Crypto
package import Foundation
package import NIOSSL
import SwiftASN1
package import X509

/// A CA that signs whatever a test asks for.
package struct TestAuthority: Sendable {
  package let certificate: Certificate
  package let key: Certificate.PrivateKey

  package init(
    _ name: String = "test", from: Date = Date(timeIntervalSinceNow: -3600),
    until: Date = Date(timeIntervalSinceNow: 86_400), key: P256.Signing.PrivateKey = P256.Signing.PrivateKey()
  ) throws {
    let key = Certificate.PrivateKey(key)
    let subject = try DistinguishedName { CommonName("\(name) relay CA") }
    certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey, notValidBefore: from, notValidAfter: until,
      issuer: subject, subject: subject,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
        Critical(KeyUsage(keyCertSign: true))
      },
      issuerPrivateKey: key)
    self.key = key
  }

  /// - Parameters:
  ///   - relay: the name in the `relay:` URI; nil leaves it out.
  ///   - host: the only host that it is for; nil: `localhost` and 127.0.0.1.
  package func leaf(
    relay: String?, host: String? = nil, usages: [ExtendedKeyUsage.Usage] = [.serverAuth, .clientAuth],
    from: Date = Date(timeIntervalSinceNow: -3600), until: Date = Date(timeIntervalSinceNow: 3600)
  ) throws -> TestLeaf {
    let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
    var names: [GeneralName] = [
      .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
    ]
    if let host { names = [.dnsName(host)] }
    if let relay { names.append(.uniformResourceIdentifier("relay:\(relay)")) }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: key.publicKey, notValidBefore: from, notValidAfter: until,
      issuer: self.certificate.subject, subject: try DistinguishedName { CommonName("leaf") },
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage(usages)
        SubjectAlternativeNames(names)
      },
      issuerPrivateKey: self.key)
    return TestLeaf(certificate: certificate, key: key, authority: self.certificate)
  }

  package var der: [UInt8] {
    get throws { try certificate.testDER }
  }

  package var pem: String {
    get throws { try certificate.serializeAsPEM().pemString }
  }
}

/// A leaf with its key and the CA that is presented with it.
package struct TestLeaf: Sendable {
  package let certificate: Certificate
  package let key: Certificate.PrivateKey
  package let authority: Certificate

  /// Leaf and CA.
  package var chain: [NIOSSLCertificate] {
    get throws {
      try [certificate, authority].map { try NIOSSLCertificate(bytes: $0.testDER, format: .der) }
    }
  }

  package var privateKey: NIOSSLPrivateKey {
    get throws { try NIOSSLPrivateKey(bytes: Array(key.serializeAsPEM().pemString.utf8), format: .pem) }
  }

  /// Replaces the PEM files of a server: leaf and CA, and the key.
  package func write(chain: String, key file: String) throws {
    let pem = try [certificate, authority].map { try $0.serializeAsPEM().pemString }.joined(separator: "\n")
    try key.serializeAsPEM().pemString.write(toFile: file, atomically: true, encoding: .utf8)
    try pem.write(toFile: chain, atomically: true, encoding: .utf8)
  }

  /// The same chain with another CA put behind the leaf: what a forger could present.
  package func presented(with other: TestAuthority) -> TestLeaf {
    TestLeaf(certificate: certificate, key: key, authority: other.certificate)
  }

  /// Presents this leaf and trusts `authority` alone.
  package func clientConfiguration(trusting authority: Certificate) throws -> TLSConfiguration {
    var configuration = try Self.anonymousConfiguration(trusting: authority)
    configuration.certificateChain = try chain.map { .certificate($0) }
    configuration.privateKey = .privateKey(try privateKey)
    return configuration
  }

  /// Presents nothing.
  package static func anonymousConfiguration(trusting authority: Certificate) throws -> TLSConfiguration {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .certificates([try NIOSSLCertificate(bytes: authority.testDER, format: .der)])
    return configuration
  }
}

extension Certificate {
  package var testDER: [UInt8] {
    get throws {
      var serializer = DER.Serializer()
      try serializer.serialize(self)
      return serializer.serializedBytes
    }
  }
}
