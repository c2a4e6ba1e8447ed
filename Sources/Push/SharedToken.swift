import RelayCore
import RelayWork
import Synchronization

/// A token that a provider takes for a while: made by one for all who need it, kept until it is to be renewed.
final class SharedToken: Sendable {
  struct Token: Sendable, Equatable, Sensitive {
    static let kind: StaticString = "token"
    /// The value of the header `authorization`, made once for all pushes.
    let authorization: String
    let made: Timestamp
    /// From then on another is made.
    let renewal: Timestamp

    /// A token that was made while the clock was ahead is worth nothing, however long it would last.
    func isCurrent(at now: Timestamp) -> Bool { now < renewal && !isFromAhead(at: now) }
    func isFromAhead(at now: Timestamp) -> Bool { made > now.adding(.seconds(60)) }
  }
  /// The outcome of a push for which there is no token.
  struct Failure: Error, Sendable, Equatable {
    let outcome: PushOutcome
  }
  typealias Made = Result<Token, Failure>

  private struct State {
    var token: Token?
    var isMaking = false
    var waiters = Waiters<Made>()
  }

  private let state = Mutex(State())
  private let make: @Sendable () async -> Made

  /// - Parameter make: ends within a time of its own; a failure is told to all who wait and not kept.
  init(make: @escaping @Sendable () async -> Made) { self.make = make }

  /// - Throws: what `make` failed with; time-out and cancellation as outcomes of their own.
  func current(now: Timestamp, until deadline: ContinuousClock.Instant) async throws(Failure) -> Token {
    let (token, isToMake) = state.withLock { state -> (Token?, Bool) in
      if let token = state.token, token.isCurrent(at: now) { return (token, false) }
      defer { state.isMaking = true }
      return (nil, !state.isMaking)
    }
    if let token { return token }
    // Everybody's work: a caller that goes away does not take the token from others.
    if isToMake { Task { finish(await make()) } }
    guard let made = await wait(until: deadline, now: now) else {
      throw Failure(outcome: .temporary(Task.isCancelled ? .cancelled : .tokenTimedOut))
    }
    return try made.get()
  }

  /// The provider does not take `token` any more.
  func discard(_ token: Token) {
    state.withLock { state in
      if state.token == token { state.token = nil }
    }
  }

  private func finish(_ made: Made) {
    let waiters = state.withLock { state in
      state.isMaking = false
      if case .success(let token) = made { state.token = token }
      return state.waiters.takeAll()
    }
    waiters.end(with: made)
  }

  /// - Returns: nil when the deadline or the task's cancellation came first.
  private func wait(until deadline: ContinuousClock.Instant, now: Timestamp) async -> Made? {
    let waiter = Waiter<Made>()
    let ready = state.withLock { state -> Made? in
      // It may have been made since.
      if let token = state.token, token.isCurrent(at: now) { return .success(token) }
      guard state.isMaking else { return .failure(Failure(outcome: .temporary(.noToken))) }
      state.waiters.add(waiter)
      return nil
    }
    if let ready { return ready }
    defer { state.withLock { $0.waiters.remove(waiter) } }
    if let made = await waiter.value(until: deadline) { return made }
    // It may have been made as this gave up.
    return state.withLock { state in state.token.flatMap { $0.isCurrent(at: now) ? .success($0) : nil } }
  }
}

extension PushReason {
  /// The token that a push needs did not come in time: from Google, that is.
  static let tokenTimedOut = PushReason(.server, "token-timed-out")
  /// It could not be made a moment ago.
  static let noToken = PushReason(.server, "no-token")
}
