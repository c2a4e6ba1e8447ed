/// Bounds what has no bound of its own, such as the system's name look-up.
package enum TimeLimit {
  /// - Returns: what `work` returns; nil when it takes longer than `limit`, or the caller is cancelled: it is cancelled
  ///   then, and whatever it does further is nobody's concern.
  package static func run<Value: Sendable>(
    _ limit: Duration, _ work: @escaping @Sendable () async -> Value
  ) async -> Value? {
    let (values, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingOldest(1))
    let task = Task {
      continuation.yield(await work())
      continuation.finish()
    }
    let timer = Task {
      // Only cancellation throws here: the work is done.
      guard (try? await Task.sleep(for: limit)) != nil else { return }
      continuation.finish()
    }
    defer {
      task.cancel()
      timer.cancel()
    }
    return await values.first { _ in true }
  }
}
