import Synchronization

/// Requests of this client's that are under way over one socket: gives each an id, and brings its answer back.
final class LiveRequests: Sendable {
  /// Half of what a relay takes of one connection at once.
  private static let underWayMax = 8

  private struct State {
    var nextID: UInt64 = 1
    var answers: [UInt64: Inbox<LiveAnswer>] = [:]
    var end: ConnectionEnd?
  }

  private let state = Mutex(State())
  /// One element for each request that may begin.
  private let places = Inbox<Void>(bounds: .init(count: .max, bytes: .max))

  init() { for _ in 0..<Self.underWayMax { free() } }

  /// Waits for a place, has the request sent under its id, and waits for the answer.
  /// - Returns: nil when this client has closed, or the task is cancelled.
  /// - Throws: any other end of the connection.
  func exchange(send: (UInt64) async throws(ConnectionEnd) -> Void) async throws(ConnectionEnd) -> LiveAnswer? {
    guard try await places.next() != nil else { return nil }
    defer { free() }
    let answer = Inbox<LiveAnswer>(bounds: .init(count: 1, bytes: .max))
    let id = begin(answer)
    defer { state.withLock { $0.answers[id] = nil } }
    try await send(id)
    return try await answer.next()
  }

  /// An answer that nobody waits for any more is dropped, and so is a second one.
  func answered(_ id: UInt64, _ answer: LiveAnswer) {
    let waiting = state.withLock { $0.answers.removeValue(forKey: id) }
    _ = waiting?.offer(answer, bytes: answer.body.count)
  }

  func finish(_ end: ConnectionEnd) {
    let waiting = state.withLock { state in
      state.end = end
      return Array(state.answers.values)
    }
    for answer in waiting { answer.finish(end) }
    places.finish(end)
  }

  private func begin(_ answer: Inbox<LiveAnswer>) -> UInt64 {
    let (id, end) = state.withLock { state in
      defer { state.nextID += 1 }
      state.answers[state.nextID] = answer
      return (state.nextID, state.end)
    }
    if let end { answer.finish(end) }
    return id
  }

  private func free() { _ = places.offer((), bytes: 0) }
}
