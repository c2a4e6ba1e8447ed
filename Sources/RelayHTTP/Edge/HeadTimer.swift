import NIOCore

/// Ends a connection over HTTP/1.1 on which the head of a request takes too long, the first one from the connection's
/// start.
///
/// Stands before the parser, where what it waits for shows. Its timer is let run out rather than cancelled: NIO
/// searches through all timers to cancel one.
final class HeadTimer: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let limit: TimeAmount
  private let answers: FinalAnswers
  /// Since when a head is waited for; nil while none is, or none has begun.
  private var since: NIODeadline?
  /// Whether some of that head has come.
  private var hasBegun = false
  private var isTimed = false
  private var context: ChannelHandlerContext?

  init(_ limit: TimeAmount, _ answers: FinalAnswers) {
    self.limit = limit
    self.answers = answers
  }

  /// The connection could be used since `time`, before this handler came to it.
  func connectionBegan(at time: NIODeadline) { if let since { self.since = min(since, time) } }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    since = .now()
    look()
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    since = nil
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    since = nil
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let (wasWaiting, headsBefore) = (answers.awaitsHead, answers.headsRead)
    let isBlank = wasWaiting && Self.isBlank(unwrapInboundIn(data))
    context.fireChannelRead(data)
    if answers.headsRead != headsBefore {
      since = nil
      hasBegun = false
    } else if wasWaiting, !isBlank {
      hasBegun = true
      if since == nil { since = .now() }
      look()
    }
  }

  /// Old clients send an empty line behind a body (RFC 9112, 2.2), which begins no head.
  private static func isBlank(_ bytes: ByteBuffer) -> Bool {
    bytes.readableBytes <= 4
      && bytes.readableBytesView.allSatisfy { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
  }

  private func look() {
    guard let since, let context, !isTimed else { return }
    let left = since + limit - .now()
    guard left > .zero else {
      self.since = nil
      return answers.headIsLate(hasBegun: hasBegun)
    }
    isTimed = true
    _ = context.eventLoop.assumeIsolated().scheduleTask(in: left) { [weak self] in
      self?.isTimed = false
      self?.look()
    }
  }
}
