import RelayClient
import RelayCore
import TestTags
import Testing
import VOPRF

/// The client's side of an oblivious look-up, as it reads what a relay answers. `VOPRFTests` has the computation.
@Suite(.tags(.unit)) struct ObliviousBatchTests {
  private static let tokens = (0..<3).map { ContactToken(high: UInt64($0), low: 7) }

  private struct Answer {
    var evaluations: [[UInt8]]
    var proof: [UInt8]
  }

  /// A relay's key, and what it answers.
  private struct Relay {
    let key: EvaluationKey
    var publicBytes: [UInt8] { key.publicKey.element.bytes }

    init(_ number: UInt8) throws {
      key = try #require(EvaluationKey(seed: [UInt8](repeating: number, count: 32), info: []))
    }

    func evaluate(_ elements: [[UInt8]]) throws -> Answer {
      var batch = BatchEvaluation(under: key)
      let evaluations = try batch.evaluate(elements.map { try #require(GroupElement(bytes: $0)) })
      return Answer(evaluations: evaluations.map(\.bytes), proof: try batch.proof().bytes)
    }

    func outputs(_ tokens: [ContactToken]) throws -> [ObliviousOutput] {
      try tokens.map { ObliviousOutput(firstBytesOf: try key.output(of: $0.bytes)) }
    }
  }

  private static func refusal(
    of answer: Answer, _ batch: ObliviousBatch, under key: [UInt8]
  ) -> ObliviousBatch.Refusal? {
    do throws(ObliviousBatch.Refusal) {
      _ = try batch.finish(answer.evaluations, proof: answer.proof, under: key)
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
      let answer = try relay.evaluate(batch.elements)
      #expect(try batch.finish(answer.evaluations, proof: answer.proof, under: relay.publicBytes) == expected)
    }
  }

  @Test func `answers of another key, of other contacts, and altered ones are refused`() throws {
    let (relay, other) = (try Relay(1), try Relay(2))
    let batch = try ObliviousBatch(Self.tokens)
    let answer = try relay.evaluate(batch.elements)
    #expect(Self.refusal(of: try other.evaluate(batch.elements), batch, under: relay.publicBytes) == .unproved)
    #expect(Self.refusal(of: answer, batch, under: other.publicBytes) == .unproved)
    var altered = answer
    altered.evaluations.swapAt(0, 2)
    #expect(Self.refusal(of: altered, batch, under: relay.publicBytes) == .unproved)
    altered = answer
    altered.evaluations.removeLast()
    #expect(Self.refusal(of: altered, batch, under: relay.publicBytes) == .malformed)
    altered = answer
    altered.proof[3] ^= 1
    #expect(Self.refusal(of: altered, batch, under: relay.publicBytes) == .unproved)
    for key in [[], [0], [UInt8](repeating: 0, count: 32), [UInt8](repeating: 0xFF, count: 32)] as [[UInt8]] {
      #expect(Self.refusal(of: answer, batch, under: key) == .malformed)
    }
    for bytes in [[], [2], [UInt8](repeating: 0, count: 32), [1] + [UInt8](repeating: 0, count: 31)] as [[UInt8]] {
      altered = answer
      altered.evaluations[0] = bytes
      #expect(Self.refusal(of: altered, batch, under: relay.publicBytes) == .malformed)
    }
    for proof in [[], [UInt8](repeating: 0xFF, count: 64), answer.proof + [0]] as [[UInt8]] {
      altered = answer
      altered.proof = proof
      #expect(Self.refusal(of: altered, batch, under: relay.publicBytes) == .malformed)
    }
  }
}
