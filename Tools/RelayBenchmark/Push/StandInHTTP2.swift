import NIOCore
import NIOHPACK
import NIOHTTP2

/// Apple's side of a connection, frame by frame: a channel for each stream would cost the machine that is measured as
/// much as the push.
final class StandInHTTP2: ChannelInboundHandler {
  typealias InboundIn = HTTP2Frame
  typealias OutboundOut = HTTP2Frame

  /// Half of what may be under way to us.
  private static let window = 32 << 10
  private static let answer = HPACKHeaders([
    (":status", "200"), ("apns-id", "eabeae54-14a8-11e5-b60b-1697f925ec7b"),
  ])

  private let counter: PushCounter
  private let pause: TimeAmount
  private var unacknowledgedBytes = 0

  init(_ counter: PushCounter, pause: TimeAmount) {
    self.counter = counter
    self.pause = pause
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    switch frame.payload {
    case .headers(let headers) where headers.endStream: answer(frame.streamID, context)
    case .data(let data):
      unacknowledgedBytes += data.data.readableBytes
      if data.endStream { answer(frame.streamID, context) }
    default: break
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if unacknowledgedBytes > Self.window {
      let update = HTTP2Frame(
        streamID: .rootStream, payload: .windowUpdate(windowSizeIncrement: unacknowledgedBytes))
      unacknowledgedBytes = 0
      context.write(wrapOutboundOut(update), promise: nil)
    }
    context.flush()
    context.fireChannelReadComplete()
  }

  private func answer(_ stream: HTTP2StreamID, _ context: ChannelHandlerContext) {
    counter.add()
    let frame = HTTP2Frame(streamID: stream, payload: .headers(.init(headers: Self.answer, endStream: true)))
    guard pause > .zero else { return context.write(wrapOutboundOut(frame), promise: nil) }
    context.eventLoop.late(pause) { context.writeAndFlush(self.wrapOutboundOut(frame), promise: nil) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
