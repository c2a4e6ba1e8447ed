import RelayWork

/// Runs `body`, cancels it when `limit` is over, and then throws `RelayClientError.timedOut`.
package func withDeadline<Result: Sendable>(_ limit: Duration, _ body: @escaping @Sendable () async throws -> Result)
  async throws -> Result
{
  try await withThrowingTaskGroup(of: Result.self) { group in
    group.addTask { try await body() }
    group.addTask {
      guard await Pause.for(limit) else { throw CancellationError() }
      throw RelayClientError.timedOut
    }
    defer { group.cancelAll() }
    guard let first = try await group.next() else { throw CancellationError() }
    return first
  }
}
