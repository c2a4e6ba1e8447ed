import NIOCore

/// Ends a connection whose client takes nothing of what waits to be sent to it: an answer that nobody reads would be
/// kept for ever.
final class TakingWatch {
  private let limit: TimeAmount
  /// Bytes of answers that were written, ever.
  private var written = 0
  /// How many of them had left at the last look.
  private var taken = 0
  private var isTimed = false

  init(_ limit: TimeAmount) { self.limit = limit }

  func written(_ bytes: Int) { written += bytes }

  /// The timer is let run out rather than cancelled: NIO searches through all timers to cancel one.
  func writabilityChanged(_ context: ChannelHandlerContext) {
    guard !context.channel.isWritable, !isTimed else { return }
    isTimed = true
    let channel = context.channel
    // In the midst of a write TLS has some of it still, which has not left.
    channel.eventLoop.assumeIsolated().execute { [weak self] in
      guard let self, let left = left(channel) else { return }
      taken = left
      look(later: channel)
    }
  }

  private func look(later channel: any Channel) {
    isTimed = true
    _ = channel.eventLoop.assumeIsolated().scheduleTask(in: limit) { [weak self] in
      self?.isTimed = false
      self?.look(channel)
    }
  }

  private func look(_ channel: any Channel) {
    guard channel.isActive, !channel.isWritable, let left = left(channel) else { return }
    guard left > taken else { return channel.close(promise: nil) }
    taken = left
    look(later: channel)
  }

  /// - Returns: nil of a channel that is closed.
  private func left(_ channel: any Channel) -> Int? {
    // Handlers in front of us add bytes of their own: no more at a later look than at this one.
    (try? channel.syncOptions?.getOption(.bufferedWritableBytes)).map { written - $0 }
  }
}
