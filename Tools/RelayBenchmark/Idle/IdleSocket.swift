import NIOCore
import NIOWebSocket

/// A WebSocket over which nothing comes but answers to its pings.
final class IdleSocket: ChannelInboundHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundOut = WebSocketFrame

  static let ping = WebSocketFrame(fin: true, opcode: .ping, maskKey: [0x1D, 0x2E, 0x3F, 0x40], data: ByteBuffer())

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    switch frame.opcode {
    case .ping:
      let pong = WebSocketFrame(fin: true, opcode: .pong, maskKey: Self.ping.maskKey, data: frame.data)
      context.writeAndFlush(wrapOutboundOut(pong), promise: nil)
    case .connectionClose: context.close(promise: nil)
    default: break
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
