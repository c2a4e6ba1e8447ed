import Crypto
import RelayCore
import TestTags
import Testing

@testable import Directory
@testable import VOPRF

@Suite(.tags(.unit)) struct ObliviousKeyTests {
  @Test func `the relay computes what docs has published`() throws {
    let vectors = try ObliviousVectors.load()
    let key = try #require(ObliviousKey(secret: SecretBytes([UInt8](hex: vectors.key.seedHex))))
    #expect(vectors.key.info == ServerKeyName.oblivious.rawValue)
    #expect(key.publicBytes == [UInt8](hex: vectors.key.publicHex))
    #expect(Base64.encode(key.publicBytes, padded: true) == vectors.key.public)
    #expect(key.id.bits == UInt64(vectors.key.idHex, radix: 16))
    for vector in vectors.outputs {
      let token = try #require(ContactToken(bytes: [UInt8](hex: vector.tokenHex)))
      #expect(token.base64 == vector.token)
      #expect(token == ContactToken(firstBytesOf: Array(Insecure.SHA1.hash(data: Array(vector.number.utf8)))))
      #expect(try key.output(of: token.bytes) == [UInt8](hex: vector.outputHex))
      #expect(try key.outputs(of: [token]).map(\.output.bytes) == [[UInt8](hex: vector.truncatedHex)])
    }
  }

  @Test func `a request and its answer are those of docs`() throws {
    let (vectors, key) = (try ObliviousVectors.load(), try ObliviousKey.test())
    let evaluation = vectors.evaluation
    let inputs = try evaluation.tokens.map { try #require(Base64.decode($0)) }
    let blinds = SecretScalars(count: inputs.count)
    for (index, blind) in evaluation.blindsHex.enumerated() {
      blinds.write(index) { $0.update(from: [UInt8](hex: blind), count: 32) }
    }
    let client = try BlindedBatch(inputs, blinds: blinds)
    #expect(client.elements.map { Base64.encode($0.bytes, padded: true) } == evaluation.elements)
    var server = key.batch()
    let evaluations = try server.evaluate(client.elements)
    #expect(evaluations.map { Base64.encode($0.bytes, padded: true) } == evaluation.evaluations)
    let proof = try #require(Base64.decode(evaluation.proof).flatMap { EvaluationProof(bytes: $0) })
    let publicKey = try #require(PublicEvaluationKey(bytes: key.publicBytes))
    let outputs = try client.outputs(evaluations, proof, under: publicKey)
    #expect(outputs == vectors.outputs.prefix(2).map { [UInt8](hex: $0.outputHex) })
  }

  @Test func `a secret of another length makes no key`() {
    for secret in [[], [1], [UInt8](repeating: 1, count: 31), [UInt8](repeating: 1, count: 48)] as [[UInt8]] {
      #expect(ObliviousKey(secret: SecretBytes(secret)) == nil)
    }
    #expect(ObliviousKey.draw().bytes.count == ServerKeyName.oblivious.byteCount)
    #expect(ObliviousKey(secret: ObliviousKey.draw()) != nil)
  }
}
