import Crypto
import Foundation
import RelayCore

/// Keeps proofs from the library that it cannot compute with.
///
/// To verify a proof (c, s) it adds points: s·G + c·B and s·C + c·D, where B is the relay's key, C the blinded
/// element and D the evaluated one (RFC 9497, section 2.2.2). A relay that knows the exponents can choose c and s so
/// that a sum is the point at infinity, which has no compressed form: the library ends the process there. No proof
/// that a relay makes as it should comes to that.
enum ObliviousProof {
  /// - Parameters:
  ///   - evaluation: an evaluated element, c and s: 145 bytes.
  ///   - element: the blinded element that was sent, 49 bytes.
  ///   - key: the relay's public key, 49 bytes.
  /// - Returns: false for a proof whose sums may be the point at infinity, or whose numbers are 0 or not below the
  ///   order.
  static func isComputable(_ evaluation: [UInt8], of element: [UInt8], under key: [UInt8]) -> Bool {
    let numbers = evaluation[ObliviousCodec.elementBytes...]
    do {
      let challenge = try P384.KeyAgreement.PrivateKey(rawRepresentation: Array(numbers.prefix(numberBytes)))
      let response = try P384.KeyAgreement.PrivateKey(rawRepresentation: Array(numbers.suffix(numberBytes)))
      let evaluated = Array(evaluation.prefix(ObliviousCodec.elementBytes))
      // A point and its negative, whose sum it would be, share their first coordinate.
      return try Array(response.publicKey.rawRepresentation.prefix(numberBytes)) != product(challenge, key)
        && product(response, element) != product(challenge, evaluated)
    } catch {
      return false
    }
  }

  private static let numberBytes = 48

  /// The first coordinate of the product.
  private static func product(_ number: P384.KeyAgreement.PrivateKey, _ point: [UInt8]) throws -> [UInt8] {
    let product = try number.sharedSecretFromKeyAgreement(
      with: P384.KeyAgreement.PublicKey(compressedRepresentation: point))
    return product.withUnsafeBytes { Array($0) }
  }
}
