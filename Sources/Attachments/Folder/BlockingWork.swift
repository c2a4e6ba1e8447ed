import NIOPosix

/// Runs calls that may block, on threads that are made for them: never on an event loop or Swift's own threads.
enum BlockingWork {
  /// Runs `work` to its end, also when the task is cancelled: what it has begun must be cleaned up.
  static func run<Value: Sendable>(
    _ work: @escaping @Sendable () throws(BlobFailure) -> Value
  ) async throws(BlobFailure) -> Value {
    let outcome: Result<Value, BlobFailure> = await withCheckedContinuation { continuation in
      NIOThreadPool.singleton.submit { state in
        guard case .active = state else {
          return continuation.resume(returning: .failure(BlobFailure("the process is ending")))
        }
        continuation.resume(returning: Result { () throws(BlobFailure) in try work() })
      }
    }
    return try outcome.get()
  }
}
