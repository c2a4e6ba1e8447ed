import NIOCore
import NIOHTTP1

/// A connection of HTTP/1.1: one request at a time.
final class PushHTTP1: ChannelInboundHandler, PushConnection {
  typealias InboundIn = HTTPClientResponsePart
  typealias OutboundOut = HTTPClientRequestPart

  private let pool: PushPool
  private var context: ChannelHandlerContext?
  private var call: PushCall?
  /// Whether the connection serves another request after this one.
  private var isKept = true
  private var idleSince = NIODeadline.now()

  init(_ pool: PushPool) { self.pool = pool }

  var isUsable: Bool { call == nil && isKept && context?.channel.isActive == true }

  func write(_ call: PushCall) {
    guard let context, isUsable else { return call.end(.lost) }
    self.call = call
    var headers = HTTPHeaders()
    headers.reserveCapacity(call.headers.count + 2)
    headers.add(name: "host", value: call.url.server.authority)
    headers.add(contentsOf: call.headers)
    headers.add(name: "content-length", value: "\(call.body.readableBytes)")
    let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: call.url.path, headers: headers)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    if call.body.readableBytes > 0 { context.write(wrapOutboundOut(.body(.byteBuffer(call.body))), promise: nil) }
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  func look(_ now: NIODeadline) -> NIODeadline? {
    if let call {
      guard call.deadline <= now else { return call.deadline }
      end(.timedOut)
      return nil
    }
    let due = idleSince + TimeAmount(pool.pools.settings.idleTimeout)
    guard due <= now else { return due }
    close()
    return nil
  }

  func giveUp(_ call: PushCall) {
    if self.call === call { end(.cancelled) }
  }

  /// The answer that may come yet would be taken for that of the next request.
  private func end(_ failure: PushFailure) {
    let call = call
    self.call = nil
    call?.end(failure)
    close()
  }

  func close() {
    isKept = false
    context?.close(promise: nil)
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      isKept = isKept && head.isKeepAlive
      call?.began(Int(head.status.code), head.headers)
    case .body(var part):
      if let call, !call.received(&part) { end(.lost) }
    case .end:
      guard let call else { return }
      self.call = nil
      call.finish()
      guard isKept else { return close() }
      idleSince = .now()
      pool.isFree(self)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { end(PushFailure(error)) }

  func channelInactive(context: ChannelHandlerContext) {
    end(.lost)
    pool.closed(self)
    context.fireChannelInactive()
  }
}
