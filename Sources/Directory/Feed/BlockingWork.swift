import NIOPosix

/// Runs calls that block or compute for long, on threads that are made for them: never on an event loop or Swift's own
/// threads.
enum BlockingWork {
  /// Runs `work` to its end, also when the task is cancelled.
  /// - Returns: nil, with nothing done, when the process is ending.
  static func run<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value? {
    await withCheckedContinuation { continuation in
      NIOThreadPool.singleton.submit { state in
        guard case .active = state else { return continuation.resume(returning: nil) }
        continuation.resume(returning: work())
      }
    }
  }
}
