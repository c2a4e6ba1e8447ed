import RelayCore
import SwiftASN1
import X509

/// Why a presented certificate does not prove a relay. For logs and `relay peer test`: the other side of a TLS 1.3
/// handshake learns only that it was refused.
enum ChainFault: Error, Equatable, CustomStringConvertible {
  case unreadable
  case unknownAuthority(subject: String)
  case suspended(RelayName)
  case notYetValid(since: Timestamp)
  case expired(at: Timestamp)
  case wrongUsage(needed: String)
  case wrongHost(String)
  case wrongName(found: RelayName?, expected: RelayName)
  case noName
  /// Its own CA has withdrawn it.
  case revoked(serial: [UInt8])
  case broken(reason: String)

  /// One of a few words: nothing that the other side wrote.
  var kind: String {
    switch self {
    case .unreadable: "unreadable"
    case .unknownAuthority: "unknown CA"
    case .suspended: "suspended"
    case .notYetValid: "not yet valid"
    case .expired: "expired"
    case .wrongUsage: "wrong usage"
    case .wrongHost: "wrong host"
    case .wrongName, .noName: "wrong name"
    case .revoked: "revoked"
    case .broken: "broken"
    }
  }

  /// The text of a stranger, made fit for a log line.
  private static func printable(_ text: String) -> String {
    String(decoding: text.utf8.prefix(100).map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
  }

  var description: String {
    switch self {
    case .unreadable: "the certificate cannot be read"
    case .unknownAuthority(let subject):
      "unknown CA: no peer is known by the CA that signed it (issuer \(Self.printable(subject)))"
    case .suspended(let name): "the peer \(name) is suspended"
    case .notYetValid(let since): "not yet valid: the certificate begins \(since.iso8601)"
    case .expired(let end): "expired: the certificate ended \(end.iso8601)"
    case .wrongUsage(let needed): "wrong usage: the certificate is not for \(needed)"
    case .wrongHost(let host): "wrong host: the certificate is not for \(host)"
    case .wrongName(let found, let expected):
      "wrong name: the certificate is for \(found.map(\.text) ?? "no relay"), its CA is \(expected)'s"
    case .noName: "wrong name: the certificate names no relay"
    case .revoked(let serial): "revoked: its CA has withdrawn the certificate \(serial.hex)"
    case .broken(let reason): "the certificate does not verify: \(reason)"
    }
  }
}

/// Checks one leaf against the one CA that may vouch for it.
struct ChainCheck {
  enum Role {
    case client
    case server(PeerEndpoint)
  }

  let role: Role
  let now: Timestamp

  /// Signature, dates, usage, host and RFC 5280's rules. Leaves are signed by the CA itself: there is nothing between.
  func verify(_ leaf: Certificate, by authority: Certificate) async throws(ChainFault) {
    guard leaf.isIssued(by: authority) else { throw .unknownAuthority(subject: leaf.issuer.description) }
    for certificate in [leaf, authority] {
      // RFC5280Policy checks the dates too, but says so only in prose.
      guard certificate.validFrom <= now else { throw .notYetValid(since: certificate.validFrom) }
      guard now <= certificate.validUntil else { throw .expired(at: certificate.validUntil) }
    }
    let usage = UsagePolicy(role)
    guard usage.allows(leaf) else { throw .wrongUsage(needed: usage.name) }
    switch role {
    case .client:
      try await verify(leaf, by: authority) {
        RFC5280Policy(); usage
      }
    case .server(let endpoint):
      try await verify(leaf, by: authority) {
        RFC5280Policy(); usage
      }
      let identity = ServerIdentityPolicy(
        serverHostname: endpoint.isIPAddress ? nil : endpoint.host, serverIP: endpoint.isIPAddress ? endpoint.host : nil
      )
      do throws(ChainFault) {
        try await verify(leaf, by: authority) {
          RFC5280Policy(); usage; identity
        }
      } catch {
        throw .wrongHost(endpoint.host)
      }
    }
  }

  private func verify(
    _ leaf: Certificate, by authority: Certificate, @PolicyBuilder policy: () -> some VerifierPolicy
  ) async throws(ChainFault) {
    var verifier = Verifier(rootCertificates: CertificateStore([authority]), policy: policy)
    switch await verifier.validate(leaf: leaf, intermediates: CertificateStore()) {
    case .validCertificate: return
    case .couldNotValidate(let failures):
      throw .broken(reason: failures.first.map { "\($0.policyFailureReason)" } ?? "a critical extension is unknown")
    }
  }
}

/// Demands that the leaf's extended key usage is there and names our use; RFC5280Policy does not look at it.
struct UsagePolicy: VerifierPolicy {
  let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = [
    .X509ExtensionID.extendedKeyUsage, .X509ExtensionID.subjectAlternativeName,
  ]
  let usage: ExtendedKeyUsage.Usage
  let name: String

  init(_ role: ChainCheck.Role) {
    switch role {
    case .client: (usage, name) = (.clientAuth, "TLS clients (clientAuth)")
    case .server: (usage, name) = (.serverAuth, "TLS servers (serverAuth)")
    }
  }

  func allows(_ leaf: Certificate) -> Bool {
    // An extension that cannot be decoded allows nothing.
    guard let usages = try? leaf.extensions.extendedKeyUsage else { return false }
    return usages.contains(usage)
  }

  mutating func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) async -> PolicyEvaluationResult {
    let name = name
    return allows(chain.leaf) ? .meetsPolicy : .failsToMeetPolicy(reason: "the leaf is not for \(name)")
  }
}
