import NIOPosix

/// Runs calls that block or compute for long, on threads that are made for them: never on an event loop or Swift's own
/// threads.
package enum BlockingWork {
  /// Runs `work` to its end, also when the task is cancelled: what it has begun must be cleaned up.
  /// - Returns: nil, with nothing done, when the process is ending.
  /// - Throws: as `work`.
  package static func run<Value: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () throws(Failure) -> Value
  ) async throws(Failure) -> Value? {
    try await run(on: .singleton, work)
  }

  fileprivate static func run<Value: Sendable, Failure: Error>(
    on pool: NIOThreadPool, _ work: @escaping @Sendable () throws(Failure) -> Value
  ) async throws(Failure) -> Value? {
    let outcome: Result<Value, Failure>? = await withCheckedContinuation { continuation in
      pool.submit { state in
        guard case .active = state else { return continuation.resume(returning: nil) }
        continuation.resume(returning: Result { () throws(Failure) in try work() })
      }
    }
    return try outcome?.get()
  }
}

/// Threads of an owner's own for blocking work, so that nothing else waits for them. They end with it.
package final class BlockingThreads: Sendable {
  private let pool: NIOThreadPool

  package init(_ count: Int) {
    pool = NIOThreadPool(numberOfThreads: count)
    pool.start()
  }

  // No caller is left that could wait for the threads to end.
  deinit { pool.shutdownGracefully { _ in } }

  /// As `BlockingWork.run`.
  package func run<Value: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () throws(Failure) -> Value
  ) async throws(Failure) -> Value? {
    try await BlockingWork.run(on: pool, work)
  }

  /// Runs `work` without a wait for its end; not at all when the process is ending.
  package func begin(_ work: @escaping @Sendable () -> Void) {
    pool.submit { state in
      if case .active = state { work() }
    }
  }
}
