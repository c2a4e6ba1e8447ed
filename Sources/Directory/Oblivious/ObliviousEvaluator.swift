import RelayCore

/// Evaluates what clients have blinded: on threads for that, off every event loop, with a bounded queue.
///
/// Requests take turns, some elements each: a long one keeps short ones waiting for no longer than that.
final class ObliviousEvaluator: Sendable {
  /// Elements of one turn.
  private static let slice = 25
  /// Elements of all requests, for each thread: ten seconds of work at five milliseconds each, a third of the time
  /// that clients wait.
  private static let elementsPerThread = 2 * ObliviousCodec.elementsMax
  private let threads: ObliviousThreads
  private let room: RequestRoom
  private let metrics: ObliviousMetrics

  /// - Parameter elementsMax: under way and waiting.
  init(threads: ObliviousThreads, elementsMax: Int? = nil, metrics: ObliviousMetrics) {
    self.threads = threads
    self.metrics = metrics
    room = RequestRoom(size: elementsMax ?? Self.elementsPerThread * threads.count, retryAfter: .seconds(5))
  }

  /// Makes room for a request of `account`. To be asked before anything is charged.
  /// - Throws: `.unavailable` when too much waits already, or the account's request before is not done.
  func admit(_ count: Int, of account: AccountNumber) throws(Problem) -> RequestRoom.Place {
    try room.enter(account, taking: count)
  }

  /// - Parameter place: was given for at least as many.
  /// - Returns: an evaluation for each, in order.
  /// - Throws: `.undecodableElement`, `.unavailable` when nobody waits any more.
  func evaluate(
    _ elements: [[UInt8]], with key: ObliviousKey, in place: RequestRoom.Place
  ) async throws(Problem) -> [[UInt8]] {
    defer { withExtendedLifetime(place) {} }
    var evaluations: [[UInt8]] = []
    evaluations.reserveCapacity(elements.count)
    while evaluations.count < elements.count {
      let part = Array(elements[evaluations.count..<min(elements.count, evaluations.count + Self.slice)])
      evaluations += try await evaluate(part, with: key).get()
      metrics.answered(part.count)
      guard !Task.isCancelled else { throw Problem(.unavailable, retryAfter: .seconds(1)) }
    }
    return evaluations
  }

  private func evaluate(_ part: [[UInt8]], with key: ObliviousKey) async -> Result<[[UInt8]], Problem> {
    let result = await threads.run(.first) { () -> Result<[[UInt8]], ObliviousKey.Failure> in
      do throws(ObliviousKey.Failure) { return .success(try key.evaluate(part)) } catch { return .failure(error) }
    }
    switch result {
    case .success(let evaluations): return .success(evaluations)
    case .failure(.noPoint): return .failure(Problem(.undecodableElement))
    case .failure(.computation): return .failure(Problem(.internalError, reason: "an element could not be evaluated"))
    // The process is ending.
    case nil: return .failure(Problem(.unavailable, retryAfter: .seconds(1)))
    }
  }
}
