import RelayCore
import VOPRF

/// A request's evaluations, in the order of its elements, and the proof of all of them.
struct ObliviousEvaluations: Sendable {
  /// 32 bytes each.
  let elements: [[UInt8]]
  /// 64 bytes.
  let proof: [UInt8]
}

/// Evaluates what clients have blinded: on threads for that, off every event loop, with a bounded queue.
///
/// Requests take turns, some elements each: a long one keeps short ones waiting for no longer than that.
final class ObliviousEvaluator: Sendable {
  /// Elements of one turn: some hundredths of a second.
  private static let slice = 200
  /// Elements of all requests, for each thread: some two seconds of work at an eighth of a millisecond each, a tenth
  /// of the time that clients wait.
  private static let elementsPerThread = 20 * ObliviousCodec.elementsMax
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

  /// - Parameters:
  ///   - elements: at least one, 32 bytes each.
  ///   - place: was given for at least as many.
  /// - Throws: `.undecodableElement`, `.unavailable` when nobody waits any more.
  func evaluate(
    _ elements: [[UInt8]], with key: ObliviousKey, in place: RequestRoom.Place
  ) async throws(Problem) -> ObliviousEvaluations {
    defer { withExtendedLifetime(place) {} }
    var (batch, evaluations, proof): (BatchEvaluation, [[UInt8]], [UInt8]) = (key.batch(), [], [])
    evaluations.reserveCapacity(elements.count)
    while evaluations.count < elements.count {
      let end = min(elements.count, evaluations.count + Self.slice)
      let part = Array(elements[evaluations.count..<end])
      let turn = try await turn(batch, part, isLast: end == elements.count)
      (batch, proof) = (turn.batch, turn.proof)
      evaluations += turn.evaluations
      metrics.answered(part.count)
      guard !Task.isCancelled else { throw Problem(.unavailable, retryAfter: .seconds(1)) }
    }
    return ObliviousEvaluations(elements: evaluations, proof: proof)
  }

  private struct Turn: Sendable {
    var batch: BatchEvaluation
    var evaluations: [[UInt8]] = []
    /// Empty but after the last elements.
    var proof: [UInt8] = []

    mutating func take(_ part: [[UInt8]], isLast: Bool) throws(VOPRFFailure) {
      var elements: [GroupElement] = []
      elements.reserveCapacity(part.count)
      for bytes in part {
        guard let element = GroupElement(bytes: bytes) else { throw .noElement }
        elements.append(element)
      }
      evaluations = try batch.evaluate(elements).map(\.bytes)
      if isLast { proof = try batch.proof().bytes }
    }
  }

  private func turn(_ batch: BatchEvaluation, _ part: [[UInt8]], isLast: Bool) async throws(Problem) -> Turn {
    let result = await threads.run(.first) { () -> Result<Turn, VOPRFFailure> in
      var turn = Turn(batch: batch)
      do throws(VOPRFFailure) { try turn.take(part, isLast: isLast) } catch { return .failure(error) }
      return .success(turn)
    }
    switch result {
    case .success(let turn): return turn
    case .failure(.noElement): throw Problem(.undecodableElement)
    case .failure: throw Problem(.internalError, reason: "the elements could not be evaluated")
    // The process is ending.
    case nil: throw Problem(.unavailable, retryAfter: .seconds(1))
    }
  }
}
