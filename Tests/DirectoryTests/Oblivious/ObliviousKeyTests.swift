import Crypto
import CryptoExtras
import Foundation
import RelayCore
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.unit)) struct ObliviousKeyTests {
  /// RFC 9497, appendix A.4.2: P384-SHA384, VOPRF.
  private static let rfcSecret =
    "051646b9e6e7a71ae27c1e1d0b87b4381db6d3595eeeb1adb41579adbf992f4278f9016eafc944edaa2b43183581779d"
  private static let rfcPublic =
    "031d689686c611991b55f1a1d8f4305ccd6cb719446f660a30db61b7aa87b46acf59b7c0d4a9077b3da21c25dd482229a0"

  private struct RFCVector {
    let input: String
    let blinded: String
    let evaluated: String
    let output: String
  }

  private static let rfcVectors = [
    RFCVector(
      input: "00",
      blinded: "02d338c05cbecb82de13d6700f09cb61190543a7b7e2c6cd4fca56887e564ea82653b27fdad383995ea6d02cf26d0e24d9",
      evaluated: "02a7bba589b3e8672aa19e8fd258de2e6aae20101c8d761246de97a6b5ee9cf105febce4327a326255a3c604f63f600ef6",
      output: "3333230886b562ffb8329a8be08fea8025755372817ec969d114d1203d026b4a622beab60220bf19078bca35a529b35c"),
    RFCVector(
      input: "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
      blinded: "02f27469e059886f221be5f2cca03d2bdc61e55221721c3b3e56fc012e36d31ae5f8dc058109591556a6dbd3a8c69c433b",
      evaluated: "03f16f903947035400e96b7f531a38d4a07ac89a80f89d86a1bf089c525a92c7f4733729ca30c56ce78b1ab4f7d92db8b4",
      output: "b91c70ea3d4d62ba922eb8a7d03809a441e1c3c7af915cbc2226f485213e895942cd0f8580e6d99f82221e66c40d274f"),
  ]

  @Test func `the relay computes what RFC 9497 publishes`() throws {
    let key = try #require(ObliviousKey(secret: SecretBytes([UInt8](hex: Self.rfcSecret))))
    #expect(key.publicBytes == [UInt8](hex: Self.rfcPublic))
    for vector in Self.rfcVectors {
      #expect(try key.output(of: [UInt8](hex: vector.input)) == [UInt8](hex: vector.output))
      let evaluations = try key.evaluate([[UInt8](hex: vector.blinded)])
      #expect(evaluations.map { Array($0.prefix(49)) } == [[UInt8](hex: vector.evaluated)])
      #expect(evaluations.allSatisfy { $0.count == ObliviousCodec.evaluationBytes })
    }
  }

  @Test func `the relay computes what docs has published`() throws {
    let vectors = try ObliviousVectors.load()
    let key = try #require(ObliviousKey(secret: SecretBytes([UInt8](hex: vectors.key.privateHex))))
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
    let evaluations = try key.evaluate([[UInt8](hex: vectors.evaluation.elementHex)])
    #expect(evaluations.map { Array($0.prefix(49)) } == [[UInt8](hex: vectors.evaluation.evaluatedHex)])
  }

  @Test func `bytes that are no point of the curve are refused, and end no process`() throws {
    let key = try ObliviousKey.test()
    var random = SystemRandomNumberGenerator()
    var refused = 0
    for _ in 0..<40 {
      let element = [UInt8(2)] + (0..<48).map { _ in UInt8.random(in: 0...255, using: &random) }
      do {
        _ = try key.evaluate([element])
      } catch {
        #expect(error == .noPoint)
        refused += 1
      }
    }
    // Every other first coordinate belongs to a point.
    #expect((1..<40).contains(refused))
    for bytes in [[], [0], [UInt8](repeating: 0, count: 49), [2] + [UInt8](repeating: 0xFF, count: 48)] as [[UInt8]] {
      #expect(throws: ObliviousKey.Failure.noPoint) { try key.evaluate([bytes]) }
    }
  }

  @Test func `a secret that is none makes no key`() {
    let tooLarge = [UInt8](repeating: 0xFF, count: 48)
    for secret in [[], [1], [UInt8](repeating: 0, count: 48), tooLarge, [UInt8](repeating: 1, count: 49)] {
      #expect(ObliviousKey(secret: SecretBytes(secret)) == nil)
    }
    #expect(ObliviousKey(secret: ObliviousKey.draw()) != nil)
  }
}
