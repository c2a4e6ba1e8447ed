/// The proof that a batch's elements were evaluated under one key (RFC 9497, section 2.2).
package struct EvaluationProof: Sendable, Hashable {
  package static let byteCount = 64
  private let challenge: Scalar
  private let response: Scalar

  /// - Returns: nil unless there are two numbers below the group's order, 32 bytes each.
  package init?(bytes: [UInt8]) {
    guard bytes.count == Self.byteCount, let challenge = Scalar(bytes: bytes.prefix(Scalar.byteCount)),
      let response = Scalar(bytes: bytes.suffix(Scalar.byteCount))
    else { return nil }
    self.challenge = challenge
    self.response = response
  }

  /// Always 64 bytes: the challenge and the response.
  package var bytes: [UInt8] { challenge.bytes + response.bytes }

  /// Section 2.2.1, `GenerateProof`.
  /// - Parameters:
  ///   - sum: of the batch's weighted elements.
  ///   - nonce: for this proof alone; a second proof with it tells the key.
  init(under key: EvaluationKey, _ sum: GroupElement, nonce: SecretScalars) throws(VOPRFFailure) {
    let evaluated = try key.product(sum)
    guard let first = nonce.read(0, { GroupElement.generator(multipliedBy: $0) }),
      let second = nonce.read(0, { sum.multiplied(by: $0) })
    else { throw .noElement }
    challenge = Suite.challenge([key.publicKey.element, sum, evaluated, first, second])
    response = key.response(to: challenge, nonce)
  }

  /// Section 2.2.2, `VerifyProof`.
  /// - Parameters:
  ///   - sum: of the batch's weighted elements.
  ///   - evaluated: of their evaluations, with the same weights.
  /// - Returns: also false for numbers with which no proof is made: with 0 a product would be the identity.
  func holds(under key: PublicEvaluationKey, _ sum: GroupElement, _ evaluated: GroupElement) -> Bool {
    guard let response = response.encoding.withBytes({ GroupElement.generator(multipliedBy: $0) }),
      let challenged = key.element.multiplied(by: challenge), let first = GroupElement.sum(response, challenged),
      let left = sum.multiplied(by: self.response), let right = evaluated.multiplied(by: challenge),
      let second = GroupElement.sum(left, right)
    else { return false }
    return Suite.challenge([key.element, sum, evaluated, first, second]) == challenge
  }
}
