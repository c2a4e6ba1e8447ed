import TestTags
import Testing

@testable import VOPRF

/// Both sides of a batch against each other.
@Suite(.tags(.unit)) struct BatchTests {
  private static func key(_ number: UInt8) throws -> EvaluationKey {
    try #require(EvaluationKey(seed: [UInt8](repeating: number, count: 32), info: []))
  }

  private static func inputs(_ count: Int) -> [[UInt8]] {
    (0..<count).map { _ in (0..<Int.random(in: 0...40)).map { _ in UInt8.random(in: .min ... .max) } }
  }

  /// A request and its answer.
  private struct Exchange {
    let client: BlindedBatch
    let evaluations: [GroupElement]
    let proof: EvaluationProof

    init(_ inputs: [[UInt8]], under key: EvaluationKey) throws {
      client = try BlindedBatch(inputs)
      var server = BatchEvaluation(under: key)
      evaluations = try server.evaluate(client.elements)
      proof = try server.proof()
    }

    func failure(
      _ evaluations: [GroupElement], _ proof: EvaluationProof, under key: EvaluationKey
    ) -> VOPRFFailure? {
      do throws(VOPRFFailure) {
        _ = try client.outputs(evaluations, proof, under: key.publicKey)
        return nil
      } catch {
        return error
      }
    }
  }

  @Test(arguments: [1, 2, 3, 17, 60])
  func `blinded, evaluated and unblinded inputs have the outputs that the key has for them`(count: Int) throws {
    let (key, inputs) = (try Self.key(1), Self.inputs(count))
    let (first, second) = (try Exchange(inputs, under: key), try Exchange(inputs, under: key))
    let expected = try inputs.map { try key.output(of: $0) }
    for exchange in [first, second] {
      #expect(try exchange.client.outputs(exchange.evaluations, exchange.proof, under: key.publicKey) == expected)
      #expect(EvaluationProof(bytes: exchange.proof.bytes) == exchange.proof)
    }
    #expect(Set(first.client.elements).isDisjoint(with: second.client.elements), "an input looks different each time")
    #expect(first.proof != second.proof)
    #expect(try inputs.map { try Self.key(2).output(of: $0) } != expected)
  }

  @Test func `a batch that is evaluated in parts has the proof of all`() throws {
    let key = try Self.key(1)
    let client = try BlindedBatch(Self.inputs(7))
    var server = BatchEvaluation(under: key)
    var evaluations: [GroupElement] = []
    for range in [0..<1, 1..<5, 5..<5, 5..<7] { evaluations += try server.evaluate(client.elements[range]) }
    #expect(try client.outputs(evaluations, server.proof(), under: key.publicKey).count == 7)
  }

  @Test func `a forged proof, another key, swapped and foreign evaluations are refused`() throws {
    let (key, other) = (try Self.key(1), try Self.key(2))
    let exchange = try Exchange(Self.inputs(5), under: key)
    let (evaluations, proof) = (exchange.evaluations, exchange.proof)
    #expect(exchange.failure(evaluations, proof, under: key) == nil)
    #expect(exchange.failure(evaluations, proof, under: other) == .unproved)
    #expect(exchange.failure(evaluations.reversed(), proof, under: key) == .unproved)
    var swapped = evaluations
    swapped.swapAt(1, 3)
    #expect(exchange.failure(swapped, proof, under: key) == .unproved)
    var server = BatchEvaluation(under: other)
    let foreign = try server.evaluate(exchange.client.elements)
    #expect(exchange.failure(foreign, try server.proof(), under: key) == .unproved)
    #expect(exchange.failure([foreign[0]] + evaluations[1...], proof, under: key) == .unproved)
    // The proof of another batch under the same key.
    #expect(exchange.failure(evaluations, try Exchange(Self.inputs(5), under: key).proof, under: key) == .unproved)
    #expect(exchange.failure(Array(evaluations.dropLast()), proof, under: key) == .wrongCount)
    #expect(exchange.failure(evaluations + [evaluations[0]], proof, under: key) == .wrongCount)
  }

  @Test func `a proof in which any bit is another one is refused`() throws {
    let key = try Self.key(1)
    let exchange = try Exchange(Self.inputs(2), under: key)
    var refused = 0
    for bit in 0..<8 * EvaluationProof.byteCount {
      var bytes = exchange.proof.bytes
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      guard let proof = EvaluationProof(bytes: bytes) else {
        refused += 1
        continue
      }
      #expect(exchange.failure(exchange.evaluations, proof, under: key) == .unproved)
    }
    // Numbers that are not below the order: the highest bits of both.
    #expect(refused >= 6)
  }

  @Test func `proofs of numbers with which a product is the identity are refused`() throws {
    let key = try Self.key(1)
    let exchange = try Exchange(Self.inputs(1), under: key)
    let (zero, one) = ([UInt8](repeating: 0, count: 32), [1] + [UInt8](repeating: 0, count: 31))
    for (challenge, response) in [(zero, zero), (zero, one), (one, zero), (one, one)] {
      let proof = try #require(EvaluationProof(bytes: challenge + response))
      #expect(exchange.failure(exchange.evaluations, proof, under: key) == .unproved)
    }
    // As if the key were 1.
    let proof = try #require(EvaluationProof(bytes: one + one))
    #expect(exchange.failure(exchange.client.elements, proof, under: key) == .unproved)
  }

  @Test func `bytes that are no element are refused on both sides`() throws {
    let key = try Self.key(1)
    let exchange = try Exchange(Self.inputs(2), under: key)
    for bytes in EncodingTests.invalid {
      let element = try #require(GroupElement(bytes: bytes))
      var server = BatchEvaluation(under: key)
      #expect(throws: VOPRFFailure.noElement) { try server.evaluate([element]) }
      #expect(exchange.failure([exchange.evaluations[0], element], exchange.proof, under: key) == .noElement)
    }
  }

  @Test func `a batch of nothing has no proof, and no batch is larger than its weights can count`() throws {
    let server = BatchEvaluation(under: try Self.key(1))
    #expect(throws: VOPRFFailure.noElement) { try server.proof() }
    #expect(try BlindedBatch([]).elements == [])
    #expect(throws: VOPRFFailure.wrongCount) {
      try BlindedBatch(Array(repeating: [], count: BatchEvaluation.elementsMax + 1), blinds: SecretScalars(count: 0))
    }
  }
}

/// The one encoding of elements and numbers (RFC 9496, section 4.3; RFC 9497, section 4.1).
@Suite(.tags(.unit)) struct EncodingTests {
  private static let generator = [UInt8](hex: "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
  /// The group's order, 2^252 + 27742317777372353535851937790883648493.
  private static let order = [UInt8](hex: "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")

  /// RFC 9496, appendix A.2: not canonical, negative, and no square.
  static let invalid = [
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
    "4eac077a713c57b4f4397629a4145982c661f48044dd3f96427d40b147d9742f",
  ].map { [UInt8](hex: $0) }

  @Test func `an element has one encoding, and the identity is none`() throws {
    #expect(PublicEvaluationKey(bytes: Self.generator) != nil)
    for bytes in Self.invalid { #expect(PublicEvaluationKey(bytes: bytes) == nil, "\(bytes)") }
    for bytes in [
      [], [0], [UInt8](repeating: 0, count: 32), Self.generator + [0], [0] + [UInt8](repeating: 0xFF, count: 31),
    ] {
      #expect(GroupElement(bytes: bytes) == nil, "\(bytes)")
    }
    #expect(GroupElement(bytes: Self.generator)?.bytes == Self.generator)
  }

  @Test func `random bytes are mostly no element, and what is one reads back`() {
    var count = 0
    for _ in 0..<400 {
      let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
      guard let key = PublicEvaluationKey(bytes: bytes) else { continue }
      #expect(key.element.bytes == bytes)
      // The same with its highest bit set is another encoding, and none.
      #expect(PublicEvaluationKey(bytes: bytes.dropLast() + [bytes[31] | 0x80]) == nil)
      count += 1
    }
    // One in sixteen: the highest and the lowest bit are 0, and a quarter of the rest are elements.
    #expect((1..<100).contains(count))
  }

  @Test func `a number is below the order`() {
    #expect(Scalar(bytes: Self.order) == nil)
    #expect(Scalar(bytes: [Self.order[0] - 1] + Self.order[1...])?.bytes.first == 0xEC)
    #expect(Scalar(bytes: [UInt8](repeating: 0xFF, count: 32)) == nil)
    #expect(Scalar(bytes: [UInt8](repeating: 1, count: 31)) == nil)
    #expect(EvaluationProof(bytes: Self.order + [UInt8](repeating: 1, count: 32)) == nil)
    #expect(EvaluationProof(bytes: [UInt8](repeating: 1, count: 63)) == nil)
  }

  @Test(arguments: [0, 1, 2, 31])
  func `each inverse undoes its number`(count: Int) throws {
    let scalars = SecretScalars.random(count: count)
    let inverses = try #require(scalars.inverses())
    let again = try #require(inverses.inverses())
    #expect(again.bytes == scalars.bytes && Set(scalars.bytes).count == count)
    let element = try #require(GroupElement(bytes: Self.generator))
    for index in 0..<count {
      let product = try #require(scalars.read(index) { element.multiplied(by: $0) })
      #expect(inverses.read(index) { product.multiplied(by: $0) } == element)
    }
    #expect(SecretScalars(count: 2).inverses() == nil)
  }
}
