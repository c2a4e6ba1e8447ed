import NIOCore
import NIOHTTP1

/// The answer of a process that was asked for a part of the directory.
struct PartAnswer: Sendable {
  let status: HTTPResponseStatus
  var body = ByteBuffer()
}

/// Asks over one connection, one request after the other. On the connection's event loop alone.
final class PartExchange: ChannelInboundHandler {
  typealias InboundIn = NIOHTTPClientResponseFull
  typealias OutboundOut = HTTPClientRequestPart

  private var context: ChannelHandlerContext?
  /// Over TLS a connection lives on for a moment when it has been closed.
  private var isEnding = false
  private var asked: (answer: EventLoopPromise<PartAnswer>, timer: Scheduled<Void>)?

  /// Whether another request may go this way. The process may close the connection just then.
  var isReusable: Bool { !isEnding && asked == nil && context?.channel.isActive == true }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    fail(with: PartFailure.connectionEnded)
  }

  /// - Parameters:
  ///   - answer: succeeds with the whole answer. Fails with `.timedOut` at the deadline, and with what ended the
  ///     connection.
  func post(
    _ body: ByteBuffer, _ head: HTTPRequestHead, until deadline: NIODeadline, _ answer: EventLoopPromise<PartAnswer>
  ) {
    guard let context, isReusable else { return answer.fail(PartFailure.connectionEnded) }
    let timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
      fail(with: PartFailure.timedOut)
      close()
    }
    asked = (answer, timer)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  func close() {
    isEnding = true
    context?.close(promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let response = unwrapInboundIn(data)
    let answered = asked
    asked = nil
    // An answer that nobody asked for, or that is said to be the last one. Closing ends what is asked.
    if answered == nil || !response.head.isKeepAlive { close() }
    answered?.timer.cancel()
    answered?.answer.succeed(PartAnswer(status: response.head.status, body: response.body ?? ByteBuffer()))
  }

  func channelInactive(context: ChannelHandlerContext) { fail(with: PartFailure.connectionEnded) }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    fail(with: error)
    close()
  }

  private func fail(with error: any Error) {
    let failed = asked
    asked = nil
    failed?.timer.cancel()
    failed?.answer.fail(error)
  }
}
