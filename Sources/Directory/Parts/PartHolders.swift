import Logging
import Metrics
import NIOCore
package import RelayCore
import RelayMetrics
import Synchronization

/// A process that is to hold a part of the directory.
package struct PartAddress: Sendable, Equatable {
  package let part: DirectoryPartition
  /// `http://HOST:PORT` or `https://HOST:PORT`.
  package let url: String

  package init(_ part: DirectoryPartition, at url: String) {
    self.part = part
    self.url = url
  }
}

/// The processes that hold one part, and which of them answer.
///
/// A process that failed twice in a row is asked no more, until it answers the watch again (`DirectoryParts.run`).
final class PartHolders: Sendable {
  private struct State {
    /// Failures in a row, of each.
    var failures: [Int]
    /// The one to be asked first next time.
    var turn = 0
    /// As a process said last.
    var entries: Int?
  }

  let part: DirectoryPartition
  private let urls: [String]
  private let client: PartClient
  private let metrics: PartMetrics
  private let logger: Logger
  private let state: Mutex<State>

  private static let failuresMax = 2

  /// - Parameter urls: one or more.
  init(_ part: DirectoryPartition, at urls: [String], client: PartClient, logger: Logger) {
    self.part = part
    self.urls = urls
    self.client = client
    self.logger = logger
    metrics = PartMetrics(part)
    metrics.answering(urls.count)
    state = Mutex(State(failures: urls.map { _ in 0 }))
  }

  /// Whether there is a process to ask.
  var canBeAsked: Bool { state.withLock { $0.failures.contains { $0 < Self.failuresMax } } }
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
      for index in urls.indices {
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
      defer { state.turn = (state.turn + 1) % urls.count }
      return urls.indices.map { ($0 + state.turn) % urls.count }.filter { state.failures[$0] < Self.failuresMax }
    }
  }

  private func ask(_ questions: PartQuestions, _ body: ByteBuffer?, of index: Int) async throws(PartFailure)
    -> PartAnswers
  {
    do throws(PartFailure) {
      let answers = try await client.ask(questions, body, at: urls[index])
      succeeded(index, answers)
      return answers
    } catch {
      failed(index, error)
      throw error
    }
  }

  private func succeeded(_ index: Int, _ answers: PartAnswers) {
    let (isBack, count) = state.withLock { state in
      state.entries = answers.entries
      defer { state.failures[index] = 0 }
      let isBack = state.failures[index] >= Self.failuresMax
      return (isBack, state.failures.indices.count { $0 == index || state.failures[$0] < Self.failuresMax })
    }
    metrics.holds(answers.entries)
    guard isBack else { return }
    metrics.answering(count)
    logger.notice("a process with a part of the directory answers again", metadata: metadata(index))
  }

  private func failed(_ index: Int, _ failure: PartFailure) {
    metrics.failed()
    let (isGone, count) = state.withLock { state in
      state.failures[index] += 1
      return (
        state.failures[index] == Self.failuresMax, state.failures.count { $0 < Self.failuresMax }
      )
    }
    guard isGone else { return }
    metrics.answering(count)
    logger.warning(
      count == 0
        ? "a part of the directory cannot be asked, look-ups that need it are refused"
        : "a process with a part of the directory does not answer, others are asked",
      metadata: metadata(index).merging(["reason": "\(failure)"]) { $1 })
  }

  private func metadata(_ index: Int) -> Logger.Metadata { ["part": "\(part.text)", "url": "\(urls[index])"] }
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
