import NIOCore

/// Ends a connection over HTTP/2 on which the first request, or what must come whole, takes too long: fields of a
/// request, and all frames but those of bodies. Stands before NIOHTTP2's handler, which waits without a limit.
///
/// Its timer is let run out rather than cancelled: NIO searches through all timers to cancel one.
final class FrameTimer: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let limit: TimeAmount
  private var boundaries = FrameBoundaries()
  /// Since when something is waited for; nil while nothing is.
  private var since: NIODeadline?
  private var isTimed = false
  private var context: ChannelHandlerContext?

  init(_ limit: TimeAmount) { self.limit = limit }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    since = .now()
    look()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    since = nil
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    since = nil
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let before = boundaries.ended
    boundaries.read(unwrapInboundIn(data).readableBytesView)
    if boundaries.hasRequest {
      if !boundaries.isInMidst {
        since = nil
      } else if since == nil || boundaries.ended != before {
        since = .now()
      }
      look()
    }
    context.fireChannelRead(data)
  }

  private func look() {
    guard let since, let context, !isTimed else { return }
    let left = since + limit - .now()
    guard left > .zero else {
      self.since = nil
      return context.close(promise: nil)
    }
    isTimed = true
    _ = context.eventLoop.assumeIsolated().scheduleTask(in: left) { [weak self] in
      self?.isTimed = false
      self?.look()
    }
  }
}
