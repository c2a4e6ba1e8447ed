// JSON web tokens, read and verified without the library that signs them.

package import Crypto
package import CryptoExtras
import Foundation
import RelayCore

package struct TestToken: Sendable, Equatable {
  /// `alg`, `typ`, `kid`.
  package let header: [String: String]
  /// Claims that are texts.
  package let texts: [String: String]
  /// Claims that are numbers.
  package let numbers: [String: Int64]
  /// As it came.
  package let text: String
  private let signed: [UInt8]
  private let signature: [UInt8]

  /// - Throws: `TestFailure` for what is no token.
  package init(_ text: String) throws {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, let signature = Base64.decode(parts[2]) else { throw TestFailure("no token") }
    self.text = text
    self.signature = signature
    signed = Array("\(parts[0]).\(parts[1])".utf8)
    header = try Self.object(parts[0]).compactMapValues { $0 as? String }
    let claims = try Self.object(parts[1])
    texts = claims.compactMapValues { $0 as? String }
    numbers = claims.filter { !($0.value is String) }.compactMapValues { ($0 as? NSNumber)?.int64Value }
  }

  package func isSigned(by key: P256.Signing.PublicKey) -> Bool {
    guard header["alg"] == "ES256" else { return false }
    // A signature of another shape is none.
    guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
    return key.isValidSignature(signature, for: signed)
  }

  package func isSigned(by key: _RSA.Signing.PublicKey) -> Bool {
    header["alg"] == "RS256"
      && key.isValidSignature(
        _RSA.Signing.RSASignature(rawRepresentation: signature), for: SHA256.hash(data: signed),
        padding: .insecurePKCS1v1_5)
  }

  private static func object(_ part: String) throws -> [String: Any] {
    guard let bytes = Base64.decode(part),
      let object = try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any]
    else { throw TestFailure("a part of the token is no JSON object") }
    return object
  }
}
