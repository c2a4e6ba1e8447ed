import NIOCore
import NIOHTTP2

/// Lets a close wait for the end of the event loop's present turn, and sees to it that one follows a goodbye.
///
/// While a connection shuts down gracefully, Hummingbird's HTTP/2 connection manager closes it as soon as its last
/// stream has ended, which is in the midst of writing that stream's last frame: the answer would never be flushed.
/// And where an idle connection has been told to go, it waits for the answer to a PING without a limit.
/// Stands between NIOHTTP2's handler and the manager.
final class DeferredCloseHandler: ChannelOutboundHandler, RemovableChannelHandler {
  typealias OutboundIn = HTTP2Frame
  typealias OutboundOut = HTTP2Frame

  private let goodbye: TimeAmount
  private var isTimed = false

  /// - Parameter goodbye: how long what is under way may take behind a GOAWAY of ours: at least what a listener grants
  ///   it that shuts down.
  init(goodbye: TimeAmount) { self.goodbye = goodbye }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    if case .goAway = unwrapOutboundIn(data).payload, !isTimed {
      isTimed = true
      let channel = context.channel
      context.eventLoop.scheduleTask(in: goodbye) { channel.close(promise: nil) }
    }
    context.write(data, promise: promise)
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    context.eventLoop.execute { bound.value.close(mode: mode, promise: promise) }
  }
}
