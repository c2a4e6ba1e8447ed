/// The server's side of a batch: the evaluations of its elements, some at a time, and one proof for all of them
/// (RFC 9497, section 3.3.2).
package struct BatchEvaluation: Sendable {
  private let key: EvaluationKey
  private let seed: [UInt8]
  private var count = 0
  /// The weighted elements' sum: section 2.2.1, `ComputeCompositesFast`.
  private var sum = GroupElement.identity

  /// As many as the weights can count.
  static let elementsMax = 1 << 16

  package init(under key: EvaluationKey) {
    self.key = key
    seed = Suite.seed(under: key.publicKey.element)
  }

  /// Evaluates the elements that come next: two multiplications each.
  /// - Returns: the evaluations, in order.
  /// - Throws: `.noElement` for bytes that are none; the batch has no proof then. `.wrongCount` beyond 65,536 elements
  ///   in all.
  package mutating func evaluate(_ elements: some Sequence<GroupElement>) throws(VOPRFFailure) -> [GroupElement] {
    var evaluations: [GroupElement] = []
    evaluations.reserveCapacity(elements.underestimatedCount)
    for element in elements {
      guard count < Self.elementsMax else { throw .wrongCount }
      let evaluated = try key.product(element)
      let weight = Suite.weight(seed, count, element, evaluated)
      guard let weighted = element.multiplied(by: weight), let sum = GroupElement.sum(sum, weighted) else {
        throw .noElement
      }
      self.sum = sum
      count += 1
      evaluations.append(evaluated)
    }
    return evaluations
  }

  /// The proof of all elements that were evaluated, at least one.
  /// - Throws: `.noElement` before the first one.
  package func proof() throws(VOPRFFailure) -> EvaluationProof { try proof(nonce: .random(count: 1)) }

  func proof(nonce: SecretScalars) throws(VOPRFFailure) -> EvaluationProof {
    try EvaluationProof(under: key, sum, nonce: nonce)
  }
}
