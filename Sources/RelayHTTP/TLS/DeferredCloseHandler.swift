import NIOCore

/// Lets a close wait for the end of the event loop's present turn.
///
/// While a connection shuts down gracefully, Hummingbird's HTTP/2 connection manager closes it as soon as its last
/// stream has ended, which is in the midst of writing that stream's last frame: the answer would never be flushed.
/// Stands between NIOHTTP2's handler and the manager.
final class DeferredCloseHandler: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = Any
  typealias OutboundOut = Any

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    context.eventLoop.execute { bound.value.close(mode: mode, promise: promise) }
  }
}
