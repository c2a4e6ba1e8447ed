import Crypto
import CryptoExtras
import Foundation
package import RelayCore

/// Some contacts, blinded for one request: P384-SHA384 of RFC 9497 in its verifiable mode, client's side.
///
/// Blinding and finishing compute for milliseconds each contact.
// `@unchecked Sendable`: nothing of it changes, and the library's values are only read.
package struct ObliviousBatch: @unchecked Sendable {
  package enum Refusal: Error, Sendable, Equatable {
    /// A key, or an evaluation, that is none.
    case malformed
    /// The relay did not prove that it evaluated with its key.
    case unproved
  }

  private let inputs: [P384._VOPRF.BlindedInput]

  /// - Throws: `.malformed` where the library cannot blind.
  package init(_ tokens: [ContactToken]) throws(Refusal) {
    // A blinded input is the same whatever the key: any will do.
    let key = P384._VOPRF.PrivateKey(compactRepresentable: false).publicKey
    var inputs: [P384._VOPRF.BlindedInput] = []
    inputs.reserveCapacity(tokens.count)
    for token in tokens {
      do { inputs.append(try key.blind(Data(token.bytes))) } catch { throw .malformed }
    }
    self.inputs = inputs
  }

  /// 49 bytes for each contact, in order. They tell nothing of it.
  package var elements: [[UInt8]] { inputs.map { Array($0.blindedElement.oprfRepresentation) } }

  /// - Parameters:
  ///   - evaluations: of `elements`, in order.
  ///   - keyBytes: the relay's public key, 49 bytes.
  /// - Returns: each contact's output, in order.
  /// - Throws: `.malformed` for a key or an evaluation that is none, or another number of evaluations than of
  ///   elements; `.unproved` for a proof that does not hold.
  package func finish(_ evaluations: [[UInt8]], under keyBytes: [UInt8]) throws(Refusal) -> [ObliviousOutput] {
    guard evaluations.count == inputs.count, ObliviousCodec.canBePoint(keyBytes) else { throw .malformed }
    let key: P384._VOPRF.PublicKey
    do { key = try P384._VOPRF.PublicKey(compressedRepresentation: keyBytes) } catch { throw .malformed }
    var outputs: [ObliviousOutput] = []
    outputs.reserveCapacity(inputs.count)
    for (input, bytes) in zip(inputs, evaluations) {
      let element = Array(input.blindedElement.oprfRepresentation)
      guard bytes.count == ObliviousCodec.evaluationBytes, ObliviousCodec.canBePoint(Array(bytes.prefix(49))) else {
        throw .malformed
      }
      guard ObliviousProof.isComputable(bytes, of: element, under: keyBytes) else { throw .unproved }
      outputs.append(try Self.output(of: input, bytes, key))
    }
    return outputs
  }

  private static func output(
    of input: P384._VOPRF.BlindedInput, _ bytes: [UInt8], _ key: P384._VOPRF.PublicKey
  ) throws(Refusal) -> ObliviousOutput {
    let evaluation: P384._VOPRF.BlindEvaluation
    do { evaluation = try P384._VOPRF.BlindEvaluation(rawRepresentation: Data(bytes)) } catch { throw .malformed }
    do {
      return ObliviousOutput(firstBytesOf: Array(try key.finalize(input, using: evaluation)))
    } catch {
      throw .unproved
    }
  }
}
