import NIOCore
import NIOHTTP1

/// Google's and a browser's service: tokens, and pushes that are taken unread.
final class StandInHTTP1: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  static let tokenPath = "/token"
  private static let token = ByteBuffer(
    string: #"{"access_token":"stand-in","expires_in":3599,"token_type":"Bearer"}"#)
  private static let name = ByteBuffer(string: #"{"name":"projects/bench/messages/0:1500415314455276"}"#)

  private let counter: PushCounter
  private let pause: TimeAmount
  private var path = ""

  init(_ counter: PushCounter, pause: TimeAmount) {
    self.counter = counter
    self.pause = pause
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head): path = head.uri
    case .body: break
    case .end:
      guard path != Self.tokenPath else { return write(.ok, Self.token, context) }
      counter.add()
      let (status, body): (HTTPResponseStatus, ByteBuffer) =
        path.hasPrefix("/v1/projects/") ? (.ok, Self.name) : (.created, ByteBuffer())
      context.eventLoop.late(pause) { self.write(status, body, context) }
    }
  }

  private func write(_ status: HTTPResponseStatus, _ body: ByteBuffer, _ context: ChannelHandlerContext) {
    let head = HTTPResponseHead(
      version: .http1_1, status: status, headers: ["content-length": "\(body.readableBytes)"])
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    if body.readableBytes > 0 { context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil) }
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Answers any request with the number of pushes taken.
final class StandInCount: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private let counter: PushCounter
  init(_ counter: PushCounter) { self.counter = counter }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .end = unwrapInboundIn(data) else { return }
    let body = ByteBuffer(string: "\(counter.value)")
    let head = HTTPResponseHead(
      version: .http1_1, status: .ok, headers: ["content-length": "\(body.readableBytes)"])
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
