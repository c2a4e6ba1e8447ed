// The facts about a relay in its certificate (docs/federation.md, "Identity").

import Crypto
import FoundationEssentials
import NIOSSL
import RelayCore
import SwiftASN1
import X509

extension Certificate {
  /// The scheme of the SAN URI that carries a relay's name.
  static let relayScheme = "relay:"

  /// The name in the certificate's `relay:NAME` URI.
  /// - Returns: nil unless there is exactly one, and it is a relay name.
  var relayName: RelayName? {
    // An extension that cannot be decoded names nobody.
    guard let names = try? extensions.subjectAlternativeNames else { return nil }
    let claims = names.compactMap { name -> String? in
      guard case .uniformResourceIdentifier(let uri) = name, uri.hasPrefix(Self.relayScheme) else { return nil }
      return String(uri.dropFirst(Self.relayScheme.count))
    }
    guard claims.count == 1, let claim = claims.first else { return nil }
    return RelayName(claim)
  }

  /// SHA-256 of the key's SubjectPublicKeyInfo, 32 bytes: what a CA is known by, also across a renewal of its
  /// certificate.
  var keyFingerprint: [UInt8] {
    var serializer = DER.Serializer()
    // Serialising a parsed key cannot fail; were it to, the empty input matches no fingerprint of a key.
    guard (try? serializer.serialize(publicKey)) != nil else { return [] }
    return Array(SHA256.hash(data: serializer.serializedBytes))
  }

  /// - Throws: what the serializer throws; not for a certificate that was parsed or made here.
  var der: [UInt8] {
    get throws {
      var serializer = DER.Serializer()
      try serializer.serialize(self)
      return serializer.serializedBytes
    }
  }

  init(_ certificate: NIOSSLCertificate) throws { try self.init(derEncoded: certificate.toDERBytes()) }

  /// The serial number, big-endian without leading zeros: how revocations name a leaf.
  var serial: [UInt8] { Array(serialNumber.bytes.drop { $0 == 0 }) }

  var validFrom: Timestamp { Timestamp(notValidBefore) }
  var validUntil: Timestamp { Timestamp(notValidAfter) }

  /// Whether it may vouch for others (RFC 5280, 4.2.1.9).
  var isAuthority: Bool {
    guard case .isCertificateAuthority? = try? extensions.basicConstraints else { return false }
    return true
  }

  /// Whether `issuer`'s key signed it.
  func isIssued(by issuer: Certificate) -> Bool {
    self.issuer == issuer.subject && issuer.publicKey.isValidSignature(signature, for: self)
  }
}

extension Timestamp {
  init(_ date: Date) { self.init(millis: Int64((date.timeIntervalSince1970 * 1000).rounded())) }
  var date: Date { Date(timeIntervalSince1970: Double(millis) / 1000) }
}
