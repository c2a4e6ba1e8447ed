package import RelayCore
import VOPRF

/// Some contacts, blinded for one request: ristretto255-SHA512 of RFC 9497 in its verifiable mode, client's side.
///
/// Blinding takes some 0.07 ms of computing for each contact, finishing 0.2 ms.
package struct ObliviousBatch: Sendable {
  package enum Refusal: Error, Sendable, Equatable {
    /// A key, an evaluation or a proof that is none.
    case malformed
    /// The relay did not prove that it evaluated with its key.
    case unproved
  }

  private let batch: BlindedBatch

  /// - Throws: `.malformed` for more contacts than a request may have.
  package init(_ tokens: [ContactToken]) throws(Refusal) {
    guard tokens.count <= ObliviousCodec.elementsMax else { throw .malformed }
    do throws(VOPRFFailure) { batch = try BlindedBatch(tokens.map(\.bytes)) } catch { throw Refusal(error) }
  }

  /// 32 bytes for each contact, in order. They tell nothing of it.
  package var elements: [[UInt8]] { batch.elements.map(\.bytes) }

  /// - Parameters:
  ///   - evaluations: of `elements`, in order.
  ///   - proof: of all of them, 64 bytes.
  ///   - keyBytes: the relay's public key, 32 bytes.
  /// - Returns: each contact's output, in order.
  /// - Throws: `.malformed` for a key, an evaluation or a proof that is none, or another number of evaluations than of
  ///   elements; `.unproved` for a proof that does not hold.
  package func finish(
    _ evaluations: [[UInt8]], proof: [UInt8], under keyBytes: [UInt8]
  ) throws(Refusal) -> [ObliviousOutput] {
    guard let key = PublicEvaluationKey(bytes: keyBytes), let proof = EvaluationProof(bytes: proof) else {
      throw .malformed
    }
    let elements = evaluations.compactMap { GroupElement(bytes: $0) }
    guard elements.count == evaluations.count else { throw .malformed }
    do throws(VOPRFFailure) {
      return try batch.outputs(elements, proof, under: key).map { ObliviousOutput(firstBytesOf: $0) }
    } catch {
      throw Refusal(error)
    }
  }
}

extension ObliviousBatch.Refusal {
  fileprivate init(_ failure: VOPRFFailure) {
    switch failure {
    case .noElement, .wrongCount: self = .malformed
    case .unproved: self = .unproved
    }
  }
}
