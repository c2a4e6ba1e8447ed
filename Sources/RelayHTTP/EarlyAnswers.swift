package import NIOCore
import NIOHTTP2
package import NIOHTTPTypes

/// Ends the stream of a request over HTTP/2 that is answered before all of it has come, as RFC 9113, 8.1 has it: nobody reads
/// the rest.
///
/// Else the stream would stay until its sender has sent the rest, which one that has its answer may never do: NIO's client
/// neither goes on nor gives the stream up. Stands behind the codec of a stream's channel.
package final class EarlyAnswers: ChannelDuplexHandler, RemovableChannelHandler {
  package typealias InboundIn = HTTPRequestPart
  package typealias InboundOut = HTTPRequestPart
  package typealias OutboundIn = HTTPResponsePart
  package typealias OutboundOut = HTTPResponsePart

  private var hasRequest = false

  package init() {}

  package func handlerAdded(context: ChannelHandlerContext) {
    do {
      try context.pipeline.syncOperations.addHandler(StreamReset(), position: .first)
    } catch {
      context.fireErrorCaught(error)
    }
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    if case .end = unwrapInboundIn(data) { hasRequest = true }
    context.fireChannelRead(data)
  }

  package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard case .end = unwrapOutboundIn(data), !hasRequest else { return context.write(data, promise: promise) }
    let written = promise ?? context.eventLoop.makePromise()
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    // Behind the answer, which a reset would overtake while it waits for the peer's window.
    written.futureResult.whenSuccess {
      let (handler, context) = bound.value
      if !handler.hasRequest { context.triggerUserOutboundEvent(StreamReset.Event(), promise: nil) }
    }
    context.write(data, promise: written)
  }
}

/// Resets the stream without an error. Stands in front of the codec.
private final class StreamReset: ChannelOutboundHandler {
  struct Event: Sendable {}
  typealias OutboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    guard event is Event else { return context.triggerUserOutboundEvent(event, promise: promise) }
    context.writeAndFlush(wrapOutboundOut(.rstStream(.noError)), promise: promise)
  }
}
