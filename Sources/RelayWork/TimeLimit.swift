/// Bounds what has no bound of its own, such as the system's name look-up.
package enum TimeLimit {
  /// - Returns: what `work` returns; nil when it takes longer than `limit`, or the caller is cancelled: `work` is
  ///   cancelled then, and goes on to its end without anybody who waits for it.
  package static func run<Value: Sendable>(
    _ limit: Duration, on clock: some Clock<Duration> = ContinuousClock(),
    _ work: @escaping @Sendable () async -> Value
  ) async -> Value? {
    let waiter = Waiter<Value>()
    let deadline = clock.now.advanced(by: limit)
    let task = Task { waiter.end(with: await work()) }
    defer { task.cancel() }
    return await waiter.value(until: deadline, on: clock)
  }
}
