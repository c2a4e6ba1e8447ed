import RelayCore

/// When whoever follows the directory's feed looks again: when a signal says that something has changed, else every so often,
/// and whenever it wants to itself. However many come while it is at work, it looks once more.
struct FeedWakeUps: Sendable {
  /// For one reader.
  let stream: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  init() { (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1)) }

  func wake() { continuation.yield() }

  /// Wakes until it is cancelled: by `signals`, which may be lost, and every `poll` without them.
  ///
  /// - Parameter beat: called as often, also while a reading is under way.
  func run(by signals: any SignalBus, every poll: Duration, beat: () -> Void) async {
    signals.listen { [continuation] event in
      switch event {
      case .signal(.accountChanged), .signal(.peersChanged), .connected: continuation.yield()
      case .disconnected: break
      }
    }
    while !Task.isCancelled {
      wake()
      beat()
      // Only cancellation throws here, and the loop's condition sees it.
      try? await Task.sleep(for: poll)
    }
  }
}
