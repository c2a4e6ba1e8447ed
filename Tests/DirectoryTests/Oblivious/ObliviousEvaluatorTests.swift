import RelayCore
import TestSupport
import TestTags
import Testing

@testable import Directory

@Suite(.tags(.stores)) struct ObliviousEvaluatorTests {
  private static func elements(_ count: Int) throws -> [[UInt8]] {
    let element = try #require(Base64.decode(try ObliviousVectors.load().evaluation.elements[0]))
    return Array(repeating: element, count: count)
  }

  private static func account(_ index: Int) throws -> AccountNumber { try FollowerSite.number(index) }

  @Test func `an account has one request under way at a time`() throws {
    let evaluator = ObliviousEvaluator(threads: ObliviousThreads(1), metrics: ObliviousMetrics())
    var first: RequestRoom.Place? = try evaluator.admit(1, of: Self.account(1))
    #expect(throws: Problem(.unavailable, retryAfter: .seconds(5))) { try evaluator.admit(1, of: Self.account(1)) }
    let other = try evaluator.admit(1, of: Self.account(2))
    withExtendedLifetime(first) {}
    first = nil
    _ = try evaluator.admit(1, of: Self.account(1))
    withExtendedLifetime(other) {}
  }

  /// Notes who had a turn.
  private actor Turns {
    private(set) var ranks: [RankedTurns.Rank] = []
    func add(_ rank: RankedTurns.Rank) { ranks.append(rank) }
  }

  @Test func `clients go first, and contacts have a turn among many of them`() async throws {
    let (turns, taken) = (RankedTurns(1), Turns())
    await turns.take()
    await withTaskGroup(of: Void.self) { group in
      for index in 0..<21 {
        let rank: RankedTurns.Rank = index == 0 ? .later : .first
        group.addTask {
          await turns.take(rank)
          await taken.add(rank)
          turns.giveBack()
        }
      }
      while turns.waiting < 21 { await Task.yield() }
      turns.giveBack()
    }
    let ranks = await taken.ranks
    #expect(ranks.count == 21 && ranks.firstIndex(of: .later) == 8)
  }

  @Test func `a question on top of a full queue is refused with a time to wait, and its room comes back`() throws {
    let evaluator = ObliviousEvaluator(threads: ObliviousThreads(1), elementsMax: 10, metrics: ObliviousMetrics())
    var first: RequestRoom.Place? = try evaluator.admit(7, of: Self.account(1))
    let second = try evaluator.admit(3, of: Self.account(2))
    #expect(throws: Problem(.unavailable, retryAfter: .seconds(5))) {
      try evaluator.admit(1, of: Self.account(3))
    }
    withExtendedLifetime(first) {}
    first = nil
    _ = try evaluator.admit(7, of: Self.account(3))
    withExtendedLifetime(second) {}
  }

  @Test func `requests at once are each answered in their own order`() async throws {
    let (key, vectors) = (try ObliviousKey.test(), try ObliviousVectors.load())
    let evaluator = ObliviousEvaluator(threads: ObliviousThreads(2), metrics: ObliviousMetrics())
    let evaluated = Base64.decode(vectors.evaluation.evaluations[0])
    // Some of several turns.
    let counts = [1, 230, 60, 2, 426]
    let answers = try await withThrowingTaskGroup(of: Int.self) { group in
      for (index, count) in counts.enumerated() {
        let (elements, account) = (try Self.elements(count), try Self.account(index))
        group.addTask {
          let place = try evaluator.admit(count, of: account)
          let evaluations = try await evaluator.evaluate(elements, with: key, in: place)
          #expect(evaluations.proof.count == ObliviousCodec.proofBytes)
          return evaluations.elements.count { $0 == evaluated }
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(answers.sorted() == counts.sorted())
  }

  @Test func `an invalid element fails its request and no other`() async throws {
    let key = try ObliviousKey.test()
    let evaluator = ObliviousEvaluator(threads: ObliviousThreads(1), metrics: ObliviousMetrics())
    let bad = try Self.elements(1) + [[1] + [UInt8](repeating: 0, count: 31)]
    let place = try evaluator.admit(2, of: Self.account(1))
    await #expect(throws: Problem(.undecodableElement)) { try await evaluator.evaluate(bad, with: key, in: place) }
    let good = try Self.elements(1)
    let evaluations = try await evaluator.evaluate(good, with: key, in: place)
    #expect(evaluations.elements.count == 1)
  }
}
