import Logging
import Metrics
import NIOCore
import RelayCore
import RelayMetrics
import Synchronization

/// The processes that hold one part, and which of them answer.
///
/// A process that failed twice in a row is asked no more, until it answers the watch again (`DirectoryParts.run`). One
/// that answers the watch and fails with what it is asked, as behind a link that loses what is large, has to answer the
/// watch twice as often each time.
final class PartHolders: Sendable {
  private struct State {
    var callees: [Callee]
    /// The one to be asked first next time.
    var turn = 0
    /// As a process said last.
    var entries: Int?
  }

  /// One of the processes.
  private struct Callee {
    /// Failures in a row.
    var failures = 0
    /// Answers to the watch until it is asked again, and as many the next time.
    var watchesLeft = 1
    var watches = 1

    var isAsked: Bool { failures < PartHolders.failuresMax }

    /// - Parameter isWatch: says nothing of whether it would answer a question.
    mutating func answered(isWatch: Bool) {
      guard isWatch else { return self = Callee() }
      guard !isAsked else { return }
      watchesLeft -= 1
      // With its first failure it is asked no more.
      if watchesLeft == 0 { failures = PartHolders.failuresMax - 1 }
    }

    /// - Parameter isWatch: the watch finds out in time when it answers again.
    mutating func failed(isWatch: Bool) {
      let wasAsked = isAsked
      failures += 1
      guard wasAsked, !isAsked else { return }
      watches = isWatch ? 1 : min(2 * watches, PartHolders.watchesMax)
      watchesLeft = watches
    }
  }

  let part: DirectoryPartition
  private let addresses: [PartAddress]
  private let client: PartClient
  private let generations: PartGenerations
  private let metrics: PartMetrics
  private let logger: Logger
  private let state: Mutex<State>

  private static let failuresMax = 2
  /// A minute, as the watch goes.
  private static let watchesMax = 32

  /// - Parameters:
  ///   - addresses: of the part, one or more.
  ///   - generations: of the parts' stores, shared by all parts.
  init(
    _ part: DirectoryPartition, at addresses: [PartAddress], client: PartClient, generations: PartGenerations,
    logger: Logger
  ) {
    self.generations = generations
    self.part = part
    self.addresses = addresses
    self.client = client
    self.logger = logger
    metrics = PartMetrics(part)
    metrics.answering(addresses.count)
    state = Mutex(State(callees: addresses.map { _ in Callee() }))
  }

  /// Whether there is a process to ask.
  var canBeAsked: Bool { state.withLock { $0.callees.contains(where: \.isAsked) } }
  /// How many contacts the part has; nil before a process said it.
  var entries: Int? { state.withLock { $0.entries } }

  /// Asks one process, and if it fails another one. One that is alone is asked again if its connection ended, as it
  /// does when the process has closed it just now.
  func ask(_ questions: PartQuestions) async throws(PartFailure) -> PartAnswers {
    let candidates = inTurn()
    guard let first = candidates.first else { throw .unreachable("no process with the part answers") }
    let body = questions.bytes
    do throws(PartFailure) {
      return try await ask(questions, body, of: first)
    } catch {
      let second: Int
      if candidates.count > 1 {
        second = candidates[1]
      } else {
        guard case .unreachable = error else { throw error }
        second = first
      }
      return try await ask(questions, body, of: second)
    }
  }

  /// Asks each process whether it has the part.
  func watch() async {
    await withTaskGroup(of: Void.self) { group in
      for index in addresses.indices {
        group.addTask { [self] in
          // A failure is noted, and told in the log.
          do throws(PartFailure) { _ = try await ask(PartQuestions(of: part), nil, of: index) } catch {}
        }
      }
    }
  }

  /// The processes that may be asked, each call beginning with another.
  private func inTurn() -> [Int] {
    state.withLock { state in
      defer { state.turn = (state.turn + 1) % addresses.count }
      return addresses.indices.map { ($0 + state.turn) % addresses.count }.filter { state.callees[$0].isAsked }
    }
  }

  private func ask(_ questions: PartQuestions, _ body: ByteBuffer?, of index: Int) async throws(PartFailure)
    -> PartAnswers
  {
    do throws(PartFailure) {
      let answers = try await client.ask(questions, body, at: addresses[index])
      guard generations.accepts(answers.place.generation) else { throw .outdated }
      succeeded(index, answers, isWatch: body == nil)
      return answers
    } catch {
      failed(index, error, isWatch: body == nil)
      throw error
    }
  }

  private func succeeded(_ index: Int, _ answers: PartAnswers, isWatch: Bool) {
    let (isBack, count) = state.withLock { state in
      state.entries = answers.entries
      let wasAsked = state.callees[index].isAsked
      state.callees[index].answered(isWatch: isWatch)
      return (!wasAsked && state.callees[index].isAsked, state.callees.count(where: \.isAsked))
    }
    metrics.holds(answers.entries)
    guard isBack else { return }
    metrics.answering(count)
    logger.notice("a process with a part of the directory answers again", metadata: metadata(index))
  }

  private func failed(_ index: Int, _ failure: PartFailure, isWatch: Bool) {
    metrics.failed()
    let (isGone, count) = state.withLock { state in
      let wasAsked = state.callees[index].isAsked
      state.callees[index].failed(isWatch: isWatch)
      return (wasAsked && !state.callees[index].isAsked, state.callees.count(where: \.isAsked))
    }
    guard isGone else { return }
    metrics.answering(count)
    logger.warning(
      count == 0
        ? "a part of the directory cannot be asked, look-ups that need it are refused"
        : "a process with a part of the directory does not answer, others are asked",
      metadata: metadata(index).merging(["reason": "\(failure)"]) { $1 })
  }

  private func metadata(_ index: Int) -> Logger.Metadata { ["part": "\(part.text)", "url": "\(addresses[index].url)"] }
}

/// The metrics of one part of the directory in a process that asks for it (docs/directory.md, "Parts").
struct PartMetrics: Sendable {
  private let held: Gauge
  private let holders: Gauge
  private let unanswered: Counter

  init(_ part: DirectoryPartition) {
    let label = PartLabel(value: part.text)
    held = RelayMetric.parts.entries.gauge(label)
    holders = RelayMetric.parts.processes.gauge(label)
    unanswered = RelayMetric.parts.unanswered.counter(label)
  }

  /// - Parameter entries: that a process with the part holds.
  func holds(_ entries: Int) { held.record(entries) }
  /// - Parameter count: of the processes with the part that answer.
  func answering(_ count: Int) { holders.record(count) }
  /// A request got no answer that is of use.
  func failed() { unanswered.increment() }
}
