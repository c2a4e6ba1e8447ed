import RelayWork
import Synchronization

/// The least speed of a transfer: one that falls below it is ended, so that nobody holds a connection and a file for
/// nothing.
package struct TransferPace: Sendable {
  /// Bytes that must pass in each window.
  let bytesMin: Int
  let window: Duration
  /// For the whole transfer.
  let limit: Duration

  package init(bytesMin: Int, window: Duration, limit: Duration) {
    self.bytesMin = bytesMin
    self.window = window
    self.limit = limit
  }

  /// 1 KiB a second, as the slowest mobile networks do.
  package static let upload = TransferPace(bytesMin: 30 << 10, window: .seconds(30), limit: BlobTimes.uploadMax)
  /// 1 KiB a second too. The system buffers much for a slow reader, and passes it in one go. Some time goes by until
  /// the next one: hence the longer window.
  package static let download = TransferPace(bytesMin: 128 << 10, window: .seconds(120), limit: .seconds(43_200))

  /// Thrown when it was too slow.
  struct TooSlow: Error {}

  /// Runs `transfer`, which counts what passes. It is cancelled when too little does.
  /// - Throws: `TooSlow`, or what `transfer` throws.
  func keep(_ transfer: @escaping @Sendable (TransferProgress) async throws -> Void) async throws {
    let progress = TransferProgress()
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await transfer(progress) }
      group.addTask { try await watch(progress) }
      // The watcher ends by throwing alone.
      try await group.next()
      group.cancelAll()
    }
  }

  private func watch(_ progress: TransferProgress) async throws {
    let deadline = ContinuousClock.now + limit
    var seen = 0
    while ContinuousClock.now < deadline {
      guard await Pause.for(min(window, deadline - ContinuousClock.now)) else { throw CancellationError() }
      let passed = progress.bytes
      guard passed - seen >= bytesMin else { throw TooSlow() }
      seen = passed
    }
    throw TooSlow()
  }
}

/// Bytes of one transfer so far.
final class TransferProgress: Sendable {
  private let count = Atomic<Int>(0)
  var bytes: Int { count.load(ordering: .relaxed) }
  func passed(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
