import RelayCore
import Synchronization
import TestTags
import Testing

@testable import Federation

/// Which hand-overs travel together, and which behind others.
@Suite(.tags(.unit)) struct HandOverRoundsTests {
  @Test func `rounds end with a failure, and go on after a refusal`() throws {
    let handOvers = try [0, 1, 0, 2].map { try message(to: $0) }
    var rounds = HandOverRounds(handOvers, of: .pairs, isInOrder: true)
    #expect(rounds.next()?.count == 2)
    rounds.answered(HandOverAnswers([HandOverAnswer(status: 429), HandOverAnswer(status: 404)]))
    // The second for 0 has the answer of the first.
    #expect(rounds.next().map(Array.init) == [handOvers[3]])
    rounds.answered(HandOverAnswers(unanswered: 1, .timedOut))
    #expect(rounds.next() == nil)
    #expect(rounds.outcome.answers.map(\.?.status) == [429, 404, 429, nil] && rounds.outcome.failure == .timedOut)
    var unordered = HandOverRounds(handOvers, of: .destinations, isInOrder: false)
    #expect(unordered.next()?.count == 2)
    unordered.answered(HandOverAnswers([HandOverAnswer(status: 429), HandOverAnswer(status: 404)]))
    #expect(unordered.next()?.count == 2)
    unordered.answered(HandOverAnswers(unanswered: 2, .timedOut))
    #expect(unordered.next() == nil)
  }

  @Test func `a round begins once the one before is noted`() async throws {
    let handOvers = try [0, 0].map { try message(to: $0) }
    let isNoted = Noted()
    var roundCount = 0
    let answers = await HandOverRounds.run(handOvers, of: .pairs, isInOrder: true) { _ in
      roundCount += 1
      #expect(isNoted.value.load(ordering: .acquiring) == (roundCount == 2))
      let noted = Task {
        for _ in 0..<100 { await Task.yield() }
        isNoted.value.store(true, ordering: .releasing)
      }
      return HandOverAnswers([HandOverAnswer(status: 200)], noted: noted)
    }
    #expect(roundCount == 2 && answers.answers.map(\.?.status) == [200, 200] && answers.noted == nil)
  }

  @Test func `a batch takes as many as fit`() throws {
    let large = Array(repeating: try message(to: 0, bodyBytes: 1 << 20), count: 10)
    #expect(HandOverRounds.Part.batch.beginning(of: large[...]).count == 3)
    let small = Array(repeating: try message(to: 0), count: 300)
    #expect(HandOverRounds.Part.batch.beginning(of: small[...]).count == 256)
    let request = try HandOver.request(for: Array(small.prefix(256)))
    #expect((request.body?.count ?? .max) <= small.prefix(256).reduce(0) { $0 + $1.wireBytesMax })
  }

  @Test func `side by side go 16, each to another destination`() throws {
    let handOvers = try (0..<20).map { try message(to: $0) } + [try message(to: 3)]
    #expect(HandOverRounds.Part.destinations.beginning(of: handOvers[...]).count == 16)
    #expect(HandOverRounds.Part.destinations.beginning(of: handOvers[3...]).count == 16)
    #expect(HandOverRounds.Part.destinations.beginning(of: handOvers[5...]).count == 16)
    #expect(HandOverRounds.Part.destinations.beginning(of: [handOvers[3], handOvers[20]]).count == 1)
  }

  private func message(to destination: Int, bodyBytes: Int = 2) throws -> HandOver {
    let message = SubmittedMessage(
      type: .ciphertext, device: .master, registrationID: 5, body: Array(repeating: 1, count: bodyBytes), content: nil)
    let submission = Submission(
      destination: QueueBench.destination(destination), messages: [message],
      timestamp: Timestamp(millis: 1_700_000_000_000))
    return .message(submission, source: try source())
  }
}

private final class Noted: Sendable {
  let value = Atomic(false)
}
