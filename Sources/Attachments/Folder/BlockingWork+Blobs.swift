import RelayWork

extension BlockingWork {
  /// Runs `work` to its end, also when the task is cancelled: what it has begun must be cleaned up.
  static func onBlobs<Value: Sendable>(
    _ work: @escaping @Sendable () throws(BlobFailure) -> Value
  ) async throws(BlobFailure) -> Value {
    guard let value = try await run(work) else { throw BlobFailure("the process is ending") }
    return value
  }
}
