import NIOCore

/// Hands on all that was written until a flush in one piece: TLS makes a record of each piece, and HTTP writes a
/// request in several.
final class GatheredWrites: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// More is handed on at once: a record of TLS has 16 KiB at most.
  private static let heldMax = 16 << 10
  /// Room for a usual request.
  private static let heldMin = 2 << 10
  private var held = ByteBuffer()
  /// Of the writes that are held, where somebody wants to know.
  private var promise: EventLoopPromise<Void>?

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    var part = unwrapOutboundIn(data)
    if held.readableBytes + part.readableBytes > Self.heldMax { handOn(context) }
    if held.readableBytes == 0 {
      held = context.channel.allocator.buffer(capacity: max(Self.heldMin, part.readableBytes))
    }
    held.writeBuffer(&part)
    guard let promise else { return }
    if self.promise == nil { self.promise = context.eventLoop.makePromise() }
    self.promise?.futureResult.cascade(to: promise)
  }

  func flush(context: ChannelHandlerContext) {
    handOn(context)
    context.flush()
  }

  func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
    if mode != .input { handOn(context) }
    context.close(mode: mode, promise: promise)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    promise?.fail(ChannelError.ioOnClosedChannel)
    promise = nil
  }

  private func handOn(_ context: ChannelHandlerContext) {
    guard held.readableBytes > 0 || promise != nil else { return }
    let part = held
    let promise = promise
    held = ByteBuffer()
    self.promise = nil
    context.write(wrapOutboundOut(part), promise: promise)
  }
}
