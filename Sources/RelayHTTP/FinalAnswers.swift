import HTTPTypes
package import NIOCore
package import NIOHTTPTypes

/// Makes an answer over HTTP/1.1 the last of its connection, and says so in it: while the process drains, and where the
/// request asked for an upgrade, behind which NIO's parser reads nothing any more.
///
/// Upgrades that come here are not carried out: those to WebSockets are `SocketGate`'s, which sees the first request of
/// a connection. A later one for a WebSocket is not answered: proxies that use connections again, and sent it over one
/// that had been idle, try again over a fresh one. Stands behind the codec of an HTTP/1.1 channel.
package final class FinalAnswers: ChannelDuplexHandler, RemovableChannelHandler {
  package typealias InboundIn = HTTPRequestPart
  package typealias InboundOut = HTTPRequestPart
  package typealias OutboundIn = HTTPResponsePart
  package typealias OutboundOut = HTTPResponsePart

  private let drain: DrainState
  private let door: (any SocketDoor)?
  /// Requests that have begun and are not answered whole.
  private var underWay = 0
  private var isUpgrade = false
  /// Whether the answer that is being written is the last.
  private var isLast = false
  private var isDeaf = false

  package init(drain: DrainState, door: (any SocketDoor)?) {
    self.drain = drain
    self.door = door
  }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .head(var request) = unwrapInboundIn(data) else {
      return isDeaf ? () : context.fireChannelRead(data)
    }
    // What is pipelined behind the last answer is lost, as on any connection that is closed.
    isDeaf = isLast
    guard !isDeaf else { return }
    guard let upgrade = request.headerFields[.upgrade] else {
      underWay += 1
      return context.fireChannelRead(data)
    }
    if upgrade.lowercased().contains("websocket"), let door,
      door.isAt(RequestTarget.split(request.path ?? "").path)
    {
      return context.close(promise: nil)
    }
    underWay += 1
    isUpgrade = true
    request.headerFields[.upgrade] = nil
    context.fireChannelRead(wrapInboundOut(.head(request)))
  }

  package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    switch unwrapOutboundIn(data) {
    case .head(var answer) where answer.status.kind != .informational:
      // With others pipelined behind it, the last of them it is.
      isLast = underWay <= 1 && (isUpgrade || drain.isDraining)
      guard isLast else { return context.write(data, promise: promise) }
      answer.headerFields[.connection] = "close"
      context.write(wrapOutboundOut(.head(answer)), promise: promise)
    case .end:
      underWay -= 1
      guard isLast else { return context.write(data, promise: promise) }
      context.writeAndFlush(data, promise: promise)
      // The client closes the rest: with bytes of it unread, closing all would take the answer back.
      context.close(mode: .output, promise: nil)
    default: context.write(data, promise: promise)
    }
  }
}
