/// Says "look again", any number of times between two looks as one.
final class Pulse: Sendable {
  let beats: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  init() {
    (beats, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    continuation.yield()
  }

  func beat() { continuation.yield() }

  /// Until the task is cancelled.
  func beat(every interval: Duration) async {
    while !Task.isCancelled {
      // Only cancellation throws here, and the loop's condition sees it.
      try? await Task.sleep(for: interval)
      beat()
    }
  }
}
