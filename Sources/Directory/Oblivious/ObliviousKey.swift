import Crypto
import CryptoExtras
import Foundation
package import RelayCore

/// The operator's key of the oblivious pseudorandom function: P384-SHA384 of RFC 9497 in its verifiable mode.
///
/// Its computations take milliseconds for each contact. They run on threads made for that (`ObliviousThreads`).
package struct ObliviousKey: Sendable {
  package enum Failure: Error, Sendable, Equatable {
    /// A client sent bytes that are no point of the curve.
    case noPoint
    /// The library could not compute with what is right.
    case computation
  }

  package let id: ObliviousKeyID
  /// 49 bytes, compressed.
  package let publicBytes: [UInt8]
  /// 48 bytes.
  package let secret: SecretBytes

  /// - Returns: nil unless `secret` is a private key of P-384: 48 bytes, not 0, below the curve's order.
  package init?(secret: SecretBytes) {
    guard let key = Self.privateKey(secret) else { return nil }
    let publicBytes = Array(key.publicKey.oprfRepresentation)
    self.secret = secret
    self.publicBytes = publicBytes
    id = ObliviousKeyID(bits: SHA256.hash(data: publicBytes).prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
  }

  /// The secret of a new key.
  static func draw() -> SecretBytes {
    SecretBytes(Array(P384._VOPRF.PrivateKey(compactRepresentable: false).rawRepresentation))
  }

  /// The function's outputs for contacts that the relay knows: section 3.3.2, "Evaluate".
  package func outputs(of tokens: [ContactToken]) throws(Failure) -> [ContactOutput] {
    guard !tokens.isEmpty else { return [] }
    let key = try key()
    var outputs: [ContactOutput] = []
    outputs.reserveCapacity(tokens.count)
    for token in tokens {
      outputs.append(ContactOutput(token, ObliviousOutput(firstBytesOf: try Self.output(of: token.bytes, key))))
    }
    return outputs
  }

  /// All 48 bytes of the output for `input`.
  package func output(of input: [UInt8]) throws(Failure) -> [UInt8] { try Self.output(of: input, key()) }

  /// Evaluates what clients have blinded, and proves each: section 3.3.2, "BlindEvaluate".
  /// - Parameter elements: as `ObliviousCodec.elements` lets them through.
  /// - Returns: for each the evaluated element and its proof, `ObliviousCodec.evaluationBytes` bytes, in order.
  package func evaluate(_ elements: [[UInt8]]) throws(Failure) -> [[UInt8]] {
    let key = try key()
    var evaluations: [[UInt8]] = []
    evaluations.reserveCapacity(elements.count)
    for element in elements {
      let point: P384._VOPRF.BlindedElement
      do { point = try P384._VOPRF.BlindedElement(oprfRepresentation: Data(element)) } catch { throw .noPoint }
      do { evaluations.append(Array(try key.evaluate(point).rawRepresentation)) } catch { throw .computation }
    }
    return evaluations
  }

  private static func output(of input: [UInt8], _ key: P384._VOPRF.PrivateKey) throws(Failure) -> [UInt8] {
    do { return Array(try key.evaluate(Data(input)) as Data) } catch { throw .computation }
  }

  /// Made for each use: the library does not say that threads may share one.
  private func key() throws(Failure) -> P384._VOPRF.PrivateKey {
    guard let key = Self.privateKey(secret) else { throw .computation }
    return key
  }

  private static func privateKey(_ secret: SecretBytes) -> P384._VOPRF.PrivateKey? {
    do { return try P384._VOPRF.PrivateKey(rawRepresentation: secret.bytes) } catch { return nil }
  }
}
