import SwiftASN1
import X509

@testable import Federation
@testable import RelayCore

/// Certificates of peers, and what their CAs say of themselves.
func fuzzCertificates(_ bytes: [UInt8]) {
  let (selector, body) = bytes.split
  switch selector % 4 {
  case 0, 1: fuzzCertificate(body)
  case 2: fuzzStatement(body)
  default:
    guard let signed = try? SignedStatement.decode(body.span.bytes), let json = try? signed.json() else { return }
    let again = try? SignedStatement.decode(json.span.bytes)
    demand(again?.statement == signed.statement && again?.signature == signed.signature, "a statement comes back")
  }
}

private func fuzzCertificate(_ der: [UInt8]) {
  guard let certificate = try? Certificate(derEncoded: der) else { return }
  if let name = certificate.relayName { demand(RelayName(name.text) == name, "a relay's name is one") }
  demand(certificate.keyFingerprint.count == 32, "a key that was read has a fingerprint")
  demand(certificate.serial.first != 0, "a serial number has no leading zeros")
  _ = certificate.isAuthority
  _ = ChainFault.unknownAuthority(subject: certificate.issuer.description).description
  for role in [ChainCheck.Role.client] { _ = UsagePolicy(role).allows(certificate) }
  if let written = try? certificate.der {
    demand((try? Certificate(derEncoded: written)) == certificate, "a certificate comes back")
  }
  let (from, until) = (certificate.validFrom, certificate.validUntil)
  if from < until { _ = ChainFault.notYetValid(since: from).description }
}

private func fuzzStatement(_ body: [UInt8]) {
  guard let statement = try? AuthorityStatement.decode(body.span.bytes), let json = try? statement.json() else {
    return
  }
  demand(statement.revokedSerials.count <= AuthorityStatement.revokedMax, "revocations are bounded")
  demand((try? AuthorityStatement.decode(json.span.bytes)) == statement, "a statement comes back")
}
