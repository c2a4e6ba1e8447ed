package import NIOPosix

/// Runs calls that block or compute for long, on threads that are made for them: never on an event loop or Swift's own
/// threads.
package enum BlockingWork {
  /// Runs `work` to its end, also when the task is cancelled: what it has begun must be cleaned up.
  /// - Returns: nil, with nothing done, when the process is ending.
  /// - Throws: as `work`.
  package static func run<Value: Sendable, Failure: Error>(
    on threads: NIOThreadPool = .singleton, _ work: @escaping @Sendable () throws(Failure) -> Value
  ) async throws(Failure) -> Value? {
    let outcome: Result<Value, Failure>? = await withCheckedContinuation { continuation in
      threads.submit { state in
        guard case .active = state else { return continuation.resume(returning: nil) }
        continuation.resume(returning: Result { () throws(Failure) in try work() })
      }
    }
    return try outcome?.get()
  }
}
