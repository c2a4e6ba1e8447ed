/// The reason why a computation has no result.
package enum VOPRFFailure: Error, Sendable, Equatable {
  /// Bytes that are no element of the group, or the identity.
  case noElement
  /// The proof does not hold: the elements were not evaluated under the key.
  case unproved
  /// A batch has more elements than a proof can count, or another number of evaluations than of elements.
  case wrongCount
}

/// The public half of a key.
package struct PublicEvaluationKey: Sendable, Hashable {
  package let element: GroupElement

  init(_ element: GroupElement) { self.element = element }

  /// - Returns: nil unless `bytes` are the one encoding of an element, and not of the identity.
  package init?(bytes: some Collection<UInt8>) {
    guard let element = GroupElement(bytes: bytes), element.isValid else { return nil }
    self.element = element
  }
}

/// The server's key of the pseudorandom function: ristretto255-SHA512 of RFC 9497 in its verifiable mode.
package final class EvaluationKey: Sendable {
  package static let seedByteCount = 32

  package let publicKey: PublicEvaluationKey
  private let scalar: SecretScalars

  /// Derives the key from a secret: RFC 9497, section 3.2.1.
  /// - Parameters:
  ///   - seed: 32 random bytes.
  ///   - info: public, below 64 KiB: other keys come from the same seed with another one.
  /// - Returns: nil for a seed of another length.
  package init?(seed: [UInt8], info: [UInt8]) {
    guard seed.count == Self.seedByteCount, let scalar = Suite.key(seed: seed, info: info),
      let element = scalar.read(0, { GroupElement.generator(multipliedBy: $0) })
    else { return nil }
    self.scalar = scalar
    publicKey = PublicEvaluationKey(element)
  }

  /// The function's output for an input that is known here: section 3.3.1, `Evaluate`. It costs half of what an
  /// evaluation with its proof does.
  /// - Parameter input: below 64 KiB.
  /// - Returns: 64 bytes.
  package func output(of input: [UInt8]) throws(VOPRFFailure) -> [UInt8] {
    Suite.output(of: input, try product(Suite.element(of: input)))
  }

  func product(_ element: GroupElement) throws(VOPRFFailure) -> GroupElement {
    guard let product = scalar.read(0, { element.multiplied(by: $0) }) else { throw .noElement }
    return product
  }

  /// The number `nonce - challenge * key`, by which a proof answers its challenge.
  func response(to challenge: Scalar, _ nonce: SecretScalars) -> Scalar {
    scalar.read(0) { nonce.difference(to: challenge, times: $0) }
  }
}
