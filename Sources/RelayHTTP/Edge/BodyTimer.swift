package import NIOCore
package import NIOHTTPTypes

/// Watches the pace of bodies, over HTTP/1.1 and in a stream of HTTP/2 alike. For one that is too slow it sends
/// `RequestTooSlow` towards the network, where `FinalAnswers` or `EarlyAnswers` ends the request.
///
/// Stands behind the codec. Its timer is let run out rather than cancelled: NIO searches through all timers to cancel one.
package final class BodyTimer: ChannelDuplexHandler, RemovableChannelHandler {
  package typealias InboundIn = HTTPRequestPart
  package typealias InboundOut = HTTPRequestPart
  package typealias OutboundIn = HTTPResponsePart

  private let pace: BodyPace
  /// Of the body that is coming; nil between bodies.
  private var credit: BodyCredit?
  /// Since when the network is waited for; nil while those behind this handler are.
  private var waitingSince: NIODeadline?
  private var isTimed = false
  private var context: ChannelHandlerContext?

  package init(_ pace: BodyPace) { self.pace = pace }

  package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head: credit = BodyCredit(pace)
    case .body(let part): credit?.received(part.readableBytes)
    case .end: credit = nil
    }
    context.fireChannelRead(data)
  }

  package func channelReadComplete(context: ChannelHandlerContext) {
    if let waitingSince { credit?.waited(.now() - waitingSince) }
    waitingSince = nil
    look()
    context.fireChannelReadComplete()
  }

  package func read(context: ChannelHandlerContext) {
    if credit != nil, waitingSince == nil { waitingSince = .now() }
    context.read()
  }

  package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  package func handlerRemoved(context: ChannelHandlerContext) {
    credit = nil
    self.context = nil
  }

  package func channelInactive(context: ChannelHandlerContext) {
    credit = nil
    context.fireChannelInactive()
  }

  private func look() {
    guard var present = credit, let context, !isTimed else { return }
    if let waitingSince { present.waited(.now() - waitingSince) }
    guard !present.isSpent else {
      credit = nil
      return context.triggerUserOutboundEvent(RequestTooSlow(), promise: nil)
    }
    isTimed = true
    _ = context.eventLoop.assumeIsolated().scheduleTask(in: present.left) { [weak self] in
      self?.isTimed = false
      self?.look()
    }
  }
}

/// The body of the request that is being read comes too slowly.
struct RequestTooSlow: Sendable {}
