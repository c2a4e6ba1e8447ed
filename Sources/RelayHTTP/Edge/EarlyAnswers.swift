import HTTPTypes
import NIOCore
import NIOHTTP2
import NIOHTTPTypes
import RelayCore

/// Ends the stream of a request over HTTP/2 that is answered before all of it has come, as RFC 9113, 8.1 has it:
/// nobody reads the rest.
///
/// Else the stream would stay until its sender has sent the rest, which one that has its answer may never do: NIO's
/// client neither goes on nor gives the stream up. It answers in place of the application what names no host or two,
/// and what comes too slowly. Stands behind the codec of a stream's channel.
final class EarlyAnswers: ChannelDuplexHandler, RemovableChannelHandler, BodyWatching {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  private let grace: TimeAmount
  private let load: RequestLoad?
  /// Whether the edge's load has the request.
  private var isCounted = false
  private var hasRequest = false
  private var isAnswering = false
  /// Answered in place of the application, which is not heard any more.
  private var isOver = false
  private var reset: Scheduled<Void>?
  /// Whether a `StreamReset` stands in front of the codec.
  private var mayReset = false
  private(set) var context: ChannelHandlerContext?
  var bodies: BodyWatch

  /// - Parameters:
  ///   - load: says whether there is room for a request; nil: there always is.
  ///   - grace: how long the sender may take to read the answer: what it has not read is lost with the stream.
  init(_ pace: BodyPace, load: RequestLoad?, grace: TimeAmount = .seconds(2)) {
    bodies = BodyWatch(pace)
    self.load = load
    self.grace = grace
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  /// Streams whose request was read need none, as nearly all.
  private func prepareReset(_ context: ChannelHandlerContext) {
    guard !mayReset else { return }
    mayReset = true
    do {
      try context.pipeline.syncOperations.addHandler(StreamReset(), position: .first)
    } catch {
      context.fireErrorCaught(error)
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      let hosts = head.headerFields[values: Self.host]
      guard HostField.isProper(authority: head.authority, hosts: hosts) else {
        return refuse(Problem(.invalidHost), context)
      }
      if let load, !load.admits() { return refuse(RequestLoad.refusal, context) }
      bodies.headCame()
    case .body(let part): bodies.received(part.readableBytes)
    case .end:
      bodies.ended()
      hasRequest = true
      if !isOver, !isAnswering { enter() }
    }
    if !isOver { context.fireChannelRead(data) }
  }

  private func enter() {
    load?.began()
    isCounted = true
  }

  /// It is being answered, or its client is gone.
  private func leave() {
    if isCounted { load?.ended() }
    isCounted = false
  }

  private static let host = HTTPField.Name("host")!  // It is a token.

  func channelReadComplete(context: ChannelHandlerContext) {
    bodyReadCompleted()
    context.fireChannelReadComplete()
  }

  func read(context: ChannelHandlerContext) {
    bodies.isAskedFor()
    context.read()
  }

  func bodyIsTooSlow(_ context: ChannelHandlerContext) {
    guard !isOver, !isAnswering else {
      prepareReset(context)
      return context.triggerUserOutboundEvent(StreamReset.Event(), promise: nil)
    }
    refuse(Problem(.requestTimeout), context)
  }

  private func refuse(_ problem: Problem, _ context: ChannelHandlerContext) {
    let (headers, body) = problem.content
    var head = HTTPResponse(status: problem.status, headerFields: headers)
    head.headerFields[.contentLength] = String(body.count)
    head.headerFields[.date] = PlainAnswer.date
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(ByteBuffer(bytes: body))), promise: nil)
    writeEnd(wrapOutboundOut(.end(nil)), nil, context)
    context.flush()
    isOver = true
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard !isOver else {
      promise?.fail(ChannelError.outputClosed)
      return
    }
    isAnswering = true
    leave()
    guard case .end = unwrapOutboundIn(data) else { return context.write(data, promise: promise) }
    writeEnd(data, promise, context)
  }

  private func writeEnd(_ data: NIOAny, _ promise: EventLoopPromise<Void>?, _ context: ChannelHandlerContext) {
    guard !hasRequest else { return context.write(data, promise: promise) }
    prepareReset(context)
    let written = promise ?? context.eventLoop.makePromise()
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    // Behind the answer, which a reset would overtake while it waits for the peer's window.
    written.futureResult.whenSuccess { bound.value.0.answered(bound.value.1) }
    context.write(data, promise: written)
  }

  func channelInactive(context: ChannelHandlerContext) {
    bodies.ended()
    leave()
    reset?.cancel()
    context.fireChannelInactive()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    bodies.ended()
    leave()
    reset?.cancel()
    self.context = nil
  }

  private func answered(_ context: ChannelHandlerContext) {
    guard !hasRequest, context.channel.isActive else { return }
    let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
    reset = context.eventLoop.scheduleTask(in: grace) {
      let (handler, context) = bound.value
      guard !handler.hasRequest, context.channel.isActive else { return }
      context.triggerUserOutboundEvent(StreamReset.Event(), promise: nil)
    }
  }
}

/// Resets the stream: without an error when told to, and with one when the peer opens its window by nothing (RFC 9113,
/// 6.9).
///
/// NIOHTTP2 (1.46, `StreamStateMachine.receiveWindowUpdate`) sees to the latter while the stream is open. Once it has
/// been answered whole, NIOHTTP2 lets any such frame pass: whether a client met the one or the other was a race with
/// the answer. Stands in front of the codec.
private final class StreamReset: ChannelDuplexHandler {
  struct Event: Sendable {}
  typealias InboundIn = HTTP2Frame.FramePayload
  typealias InboundOut = HTTP2Frame.FramePayload
  typealias OutboundIn = HTTP2Frame.FramePayload
  typealias OutboundOut = HTTP2Frame.FramePayload

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .windowUpdate(windowSizeIncrement: 0) = unwrapInboundIn(data) else {
      return context.fireChannelRead(data)
    }
    context.writeAndFlush(wrapOutboundOut(.rstStream(.protocolError)), promise: nil)
  }

  func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
    guard event is Event else { return context.triggerUserOutboundEvent(event, promise: promise) }
    context.writeAndFlush(wrapOutboundOut(.rstStream(.noError)), promise: promise)
  }
}
