/// The client's side of a batch: inputs, each blinded by a number of its own, until they are evaluated (RFC 9497,
/// section 3.3.2).
package final class BlindedBatch: Sendable {
  /// In the order of the inputs. They tell nothing of them.
  package let elements: [GroupElement]
  private let inputs: [[UInt8]]
  private let blinds: SecretScalars

  /// Blinds `inputs`, each below 64 KiB: one multiplication each.
  /// - Throws: `.wrongCount` for more than 65,536.
  package convenience init(_ inputs: [[UInt8]]) throws(VOPRFFailure) {
    try self.init(inputs, blinds: .random(count: inputs.count))
  }

  /// - Parameter blinds: as many, none of them 0.
  init(_ inputs: [[UInt8]], blinds: SecretScalars) throws(VOPRFFailure) {
    guard inputs.count <= BatchEvaluation.elementsMax, blinds.count == inputs.count else { throw .wrongCount }
    var elements: [GroupElement] = []
    elements.reserveCapacity(inputs.count)
    for (index, input) in inputs.enumerated() {
      guard let element = blinds.read(index, { Suite.element(of: input).multiplied(by: $0) }) else { throw .noElement }
      elements.append(element)
    }
    self.inputs = inputs
    self.blinds = blinds
    self.elements = elements
  }

  /// Verifies the proof and unblinds: three multiplications each.
  /// - Parameter evaluations: of `elements`, in order.
  /// - Returns: the function's outputs for the inputs, 64 bytes each, in order.
  /// - Throws: `.wrongCount` for another number of evaluations than of elements; `.noElement` for an evaluation that
  ///   is none; `.unproved`.
  package func outputs(
    _ evaluations: [GroupElement], _ proof: EvaluationProof, under key: PublicEvaluationKey
  ) throws(VOPRFFailure) -> [[UInt8]] {
    guard evaluations.count == elements.count else { throw .wrongCount }
    let (sum, evaluated) = try sums(evaluations, under: key)
    guard proof.holds(under: key, sum, evaluated) else { throw .unproved }
    guard let inverses = blinds.inverses() else { throw .noElement }
    var outputs: [[UInt8]] = []
    outputs.reserveCapacity(inputs.count)
    for (index, input) in inputs.enumerated() {
      guard let element = inverses.read(index, { evaluations[index].multiplied(by: $0) }) else { throw .noElement }
      outputs.append(Suite.output(of: input, element))
    }
    return outputs
  }

  /// Of the weighted elements, and of their evaluations: section 2.2.1, `ComputeComposites`.
  private func sums(
    _ evaluations: [GroupElement], under key: PublicEvaluationKey
  ) throws(VOPRFFailure) -> (GroupElement, GroupElement) {
    let seed = Suite.seed(under: key.element)
    var sums = (GroupElement.identity, GroupElement.identity)
    for (index, (element, evaluated)) in zip(elements, evaluations).enumerated() {
      let weight = Suite.weight(seed, index, element, evaluated)
      guard let first = element.multiplied(by: weight).flatMap({ GroupElement.sum(sums.0, $0) }),
        let second = evaluated.multiplied(by: weight).flatMap({ GroupElement.sum(sums.1, $0) })
      else { throw .noElement }
      sums = (first, second)
    }
    return sums
  }
}
