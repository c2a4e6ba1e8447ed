package import Logging
package import RelayCore
import RelayWork
import ServiceLifecycle

/// The directory as other processes hold it, each a part: what look-ups of a process without a table ask
/// (docs/architecture.md, "A directory in parts").
///
/// Look-ups that come while others are under way, or just after, go together: one request to each part then serves all
/// of them. A lone one goes at once.
package final class DirectoryParts: ContactSource, Service {
  private typealias Calls = BatchedCalls<SplitLookUp, Answered>

  /// A look-up in the batch that took it along.
  private struct Answered: Sendable {
    let batch: AnsweredBatch
    let number: Int
  }

  /// How often each process is asked whether it has its part.
  private static let watchInterval = Duration.seconds(2)
  /// Behind a batch of several look-ups, so that more of them share the next one: a request to each part costs more
  /// than the look-ups in it. Not behind one that was nearly full: the next one is so without waiting.
  private static let gathering = Duration.milliseconds(8)
  /// Tokens that wait: two thousand address books of a thousand contacts.
  private static let waitingTokensMax = 2_000_000
  private static let waitingMax = 10_000

  private let holders: [PartHolders]
  private let calls: Calls

  /// - Parameter addresses: every part of one partition, each once or more.
  package init(_ addresses: [PartAddress], client: PartClient, logger: Logger) {
    let generations = PartGenerations()
    let byPart = Dictionary(grouping: addresses, by: \.part)
    let holders = byPart.sorted { $0.key < $1.key }.map { part, addresses in
      PartHolders(part, at: addresses, client: client, generations: generations, logger: logger)
    }
    self.holders = holders
    let loop = LoopExecutor(client.loop)
    calls = Calls(
      bounds: .init(
        batch: .init(items: PartQuestions.questionsMax, bytes: PartQuestions.tokensMax),
        waiting: .init(items: Self.waitingMax, bytes: Self.waitingTokensMax)),
      // A look-up weighs its tokens.
      size: { .init(items: 1, bytes: $0.tokens.count) }
    ) { members in
      let batch = await Self.ask(holders, PartBatch(members.map(\.call), among: holders.count), on: loop)
      for (number, member) in members.enumerated() { member.end(with: Answered(batch: batch, number: number)) }
      let tokens = members.reduce(0) { $0 + $1.call.tokens.count }
      let isNearlyFull = 4 * members.count > 3 * PartQuestions.questionsMax || 4 * tokens > 3 * PartQuestions.tokensMax
      if members.count > 1, !isNearlyFull { await Pause.for(Self.gathering) }
    }
  }

  // MARK: Look-ups

  package func demandReady(for tokens: [ContactToken]?) throws(Problem) {
    for part in holders where !part.canBeAsked && tokens?.contains(where: part.part.holds) ?? true {
      throw Self.refusal(of: part.part)
    }
  }

  /// Parts have about as many contacts each: one that has not answered yet counts as the others do.
  package var count: Int {
    let known = holders.compactMap(\.entries)
    return known.isEmpty ? 0 : known.reduce(0, +) * holders.count / known.count
  }

  package func find(_ wanted: WantedContacts) async throws(Problem) -> FoundContacts {
    guard let answered = await calls.outcome(of: SplitLookUp(wanted, among: holders.count)) else {
      throw Problem(.unavailable, retryAfter: .seconds(2), reason: "too many look-ups wait for parts of the directory")
    }
    return try answered.batch.found(answered.number, of: wanted)
  }

  private static func ask(
    _ holders: [PartHolders], _ batch: PartBatch, on loop: LoopExecutor
  ) async -> AnsweredBatch {
    // Short tasks, a few for each part, between which the event loop would wake threads of the pool.
    AnsweredBatch(batch, await withTaskExecutorPreference(loop) { await ask(holders, batch) })
  }

  private static func ask(_ holders: [PartHolders], _ batch: PartBatch) async -> [Result<PartAnswers, Problem>?] {
    await withTaskGroup(of: (Int, Result<PartAnswers, Problem>).self) { group in
      for (index, questions) in batch.questions.enumerated() where !questions.questions.isEmpty {
        group.addTask { (index, await ask(holders[index], questions)) }
      }
      var answers = [Result<PartAnswers, Problem>?](repeating: nil, count: holders.count)
      for await (index, answer) in group { answers[index] = answer }
      return answers
    }
  }

  private static func ask(_ part: PartHolders, _ questions: PartQuestions) async -> Result<PartAnswers, Problem> {
    do throws(PartFailure) {
      return .success(try await part.ask(questions))
    } catch {
      return .failure(refusal(of: part.part))
    }
  }

  private static func refusal(of part: DirectoryPartition) -> Problem {
    Problem(
      .unavailable, retryAfter: .seconds(1), reason: "part \(part.text) of the directory cannot be asked")
  }

  // MARK: The watch

  package func run() async throws {
    await cancelWhenGracefulShutdown { [holders] in
      for await _ in Periodic(every: Self.watchInterval) {
        await withTaskGroup(of: Void.self) { group in
          for part in holders { group.addTask { await part.watch() } }
        }
      }
    }
  }
}
