import Crypto
import CryptoExtras
import Foundation
import RelayClient
import RelayCore
import TestTags
import Testing

/// The client's side of the oblivious pseudorandom function, against the library's server side.
@Suite(.tags(.unit)) struct ObliviousBatchTests {
  private static let tokens = (0..<3).map { ContactToken(high: UInt64($0), low: 7) }

  /// A relay's key, and what it answers.
  private struct Relay {
    let key: P384._VOPRF.PrivateKey
    var publicBytes: [UInt8] { Array(key.publicKey.oprfRepresentation) }

    init(_ number: UInt8) throws {
      key = try P384._VOPRF.PrivateKey(rawRepresentation: (0..<48).map { number + $0 })
    }

    func evaluate(_ elements: [[UInt8]]) throws -> [[UInt8]] {
      try elements.map { element in
        let point = try P384._VOPRF.BlindedElement(oprfRepresentation: element)
        return Array(try key.evaluate(point).rawRepresentation)
      }
    }

    func outputs(_ tokens: [ContactToken]) throws -> [ObliviousOutput] {
      try tokens.map { ObliviousOutput(firstBytesOf: Array(try key.evaluate(Data($0.bytes)) as Data)) }
    }
  }

  private static func refusal(
    of evaluations: [[UInt8]], _ batch: ObliviousBatch, under key: [UInt8]
  ) -> ObliviousBatch.Refusal? {
    do throws(ObliviousBatch.Refusal) {
      _ = try batch.finish(evaluations, under: key)
      return nil
    } catch {
      return error
    }
  }

  @Test func `a blinded, evaluated and unblinded contact is the relay's own output for it`() throws {
    let relay = try Relay(1)
    let (first, second) = (try ObliviousBatch(Self.tokens), try ObliviousBatch(Self.tokens))
    #expect(first.elements != second.elements, "a contact looks different each time")
    let expected = try relay.outputs(Self.tokens)
    for batch in [first, second] {
      #expect(try batch.finish(try relay.evaluate(batch.elements), under: relay.publicBytes) == expected)
    }
  }

  @Test func `answers of another key, of other contacts, and altered ones are refused`() throws {
    let (relay, other) = (try Relay(1), try Relay(2))
    let batch = try ObliviousBatch(Self.tokens)
    let evaluations = try relay.evaluate(batch.elements)
    #expect(Self.refusal(of: try other.evaluate(batch.elements), batch, under: relay.publicBytes) == .unproved)
    #expect(Self.refusal(of: evaluations, batch, under: other.publicBytes) == .unproved)
    #expect(Self.refusal(of: evaluations.reversed(), batch, under: relay.publicBytes) == .unproved)
    #expect(Self.refusal(of: evaluations.dropLast(), batch, under: relay.publicBytes) == .malformed)
    var altered = evaluations
    altered[1][100] ^= 1
    #expect(Self.refusal(of: altered, batch, under: relay.publicBytes) == .unproved)
    for key in [[], [0], [UInt8](repeating: 0, count: 49), [2] + [UInt8](repeating: 0xFF, count: 48)] as [[UInt8]] {
      #expect(Self.refusal(of: evaluations, batch, under: key) == .malformed)
    }
    for bytes in [[], [2], [UInt8](repeating: 0, count: 145)] as [[UInt8]] {
      #expect(Self.refusal(of: [bytes] + evaluations[1...], batch, under: relay.publicBytes) == .malformed)
    }
  }

  /// Without a check of our own the library would end the process.
  @Test func `proofs whose sums are the point at infinity are refused`() throws {
    let relay = try Relay(1)
    let batch = try ObliviousBatch([Self.tokens[0]])
    let evaluated = Array(try relay.evaluate(batch.elements)[0].prefix(49))
    let (zero, one) = ([UInt8](repeating: 0, count: 48), [UInt8](repeating: 0, count: 47) + [1])
    // -k: with c = 1 both sums are k·P - k·P.
    let opposite = Self.difference(Self.order, Array(relay.key.rawRepresentation))
    for (c, s) in [(zero, zero), (zero, one), (one, zero), (one, opposite), (Self.order, one)] {
      #expect(Self.refusal(of: [evaluated + c + s], batch, under: relay.publicBytes) == .unproved)
    }
    // One sum alone: the evaluated element is the element itself, as if the key were 1.
    let minusOne = Self.difference(Self.order, one)
    #expect(Self.refusal(of: [batch.elements[0] + one + minusOne], batch, under: relay.publicBytes) == .unproved)
  }

  /// The order of P-384 (SEC 2, section 2.5.1).
  private static let order: [UInt8] =
    [UInt8](repeating: 0xFF, count: 24) + [
      0xC7, 0x63, 0x4D, 0x81, 0xF4, 0x37, 0x2D, 0xDF, 0x58, 0x1A, 0x0D, 0xB2, 0x48, 0xB0, 0xA7, 0x7A, 0xEC, 0xEC, 0x19,
      0x6A, 0xCC, 0xC5, 0x29, 0x73,
    ]

  /// Big-endian numbers of one length, the first not below the second.
  private static func difference(_ a: [UInt8], _ b: [UInt8]) -> [UInt8] {
    var (result, borrow) = (a, 0)
    for index in a.indices.reversed() {
      let value = Int(a[index]) - Int(b[index]) - borrow
      borrow = value < 0 ? 1 : 0
      result[index] = UInt8((value + 256) % 256)
    }
    return result
  }
}
