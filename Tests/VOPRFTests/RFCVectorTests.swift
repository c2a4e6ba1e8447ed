import TestTags
import Testing

@testable import VOPRF

/// RFC 9497, appendix A.1.2: ristretto255-SHA512 in the verifiable mode.
@Suite(.tags(.unit)) struct RFCVectorTests {
  struct Vector: Sendable {
    let inputs: [String]
    let blinds: [String]
    let blinded: [String]
    let evaluated: [String]
    let proof: String
    let nonce: String
    let outputs: [String]
  }

  private static let seed = String(repeating: "a3", count: 32)
  private static let info = "74657374206b6579"
  private static let publicKey = "c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e"

  private static let inputs = ["00", String(repeating: "5a", count: 17)]
  private static let firstBlind = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
  private static let secondBlind = "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e"
  private static let outputs = [
    "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
      + "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
    "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
      + "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
  ]

  static let vectors = [
    Vector(
      inputs: [inputs[0]], blinds: [firstBlind],
      blinded: ["863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"],
      evaluated: ["aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"],
      proof: "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06"
        + "6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d",
      nonce: secondBlind, outputs: [outputs[0]]),
    Vector(
      inputs: [inputs[1]], blinds: [firstBlind],
      blinded: ["cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c"],
      evaluated: ["60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468"],
      proof: "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a"
        + "67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02",
      nonce: secondBlind, outputs: [outputs[1]]),
    Vector(
      inputs: inputs, blinds: [firstBlind, secondBlind],
      blinded: [
        "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
        "90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654",
      ],
      evaluated: [
        "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
        "cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a",
      ],
      proof: "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a"
        + "5ab5337c8eb4ceae0494c2cf89529dcf94572ed267473d567aeed6ab873dee08",
      nonce: "419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c", outputs: outputs),
  ]

  private static func key() throws -> EvaluationKey {
    try #require(EvaluationKey(seed: [UInt8](hex: seed), info: [UInt8](hex: info)))
  }

  @Test func `the key is derived as published`() throws {
    #expect(try Self.key().publicKey.element.bytes == [UInt8](hex: Self.publicKey))
    for seed in [[], [1], [UInt8](repeating: 1, count: 31), [UInt8](repeating: 1, count: 33)] as [[UInt8]] {
      #expect(EvaluationKey(seed: seed, info: []) == nil)
    }
  }

  @Test(arguments: vectors)
  func `both sides compute what is published`(vector: Vector) throws {
    let key = try Self.key()
    let inputs = vector.inputs.map { [UInt8](hex: $0) }
    let client = try BlindedBatch(inputs, blinds: SecretScalars(hex: vector.blinds))
    #expect(client.elements.map(\.bytes) == vector.blinded.map { [UInt8](hex: $0) })
    var server = BatchEvaluation(under: key)
    let evaluations = try server.evaluate(client.elements)
    #expect(evaluations.map(\.bytes) == vector.evaluated.map { [UInt8](hex: $0) })
    let proof = try server.proof(nonce: SecretScalars(hex: [vector.nonce]))
    #expect(proof.bytes == [UInt8](hex: vector.proof))
    let outputs = vector.outputs.map { [UInt8](hex: $0) }
    #expect(try client.outputs(evaluations, proof, under: key.publicKey) == outputs)
    #expect(try inputs.map { try key.output(of: $0) } == outputs)
  }

  @Test func `an output for an input of no bytes is an output too`() throws {
    let client = try BlindedBatch([[]])
    var server = BatchEvaluation(under: try Self.key())
    let evaluations = try server.evaluate(client.elements)
    let outputs = try client.outputs(evaluations, try server.proof(), under: try Self.key().publicKey)
    #expect(try outputs == [Self.key().output(of: [])])
  }
}
