import NIOCore
import NIOSSL
import Synchronization
import X509

/// Looks at each connection of one client, once TLS stands and before a request is written on it.
final class PeerConnections: Sendable {
  private struct Seen {
    var fault: ChainFault?
    var hasAccepted = false
    var lostCount = 0
  }

  private let accepts: @Sendable (Certificate) -> ChainFault?
  private let seen = Mutex(Seen())

  init(accepts: @escaping @Sendable (Certificate) -> ChainFault?) { self.accepts = accepts }

  /// Why the newest connection was refused; nil when it was not.
  var fault: ChainFault? { seen.withLock { $0.fault } }
  /// Whether some connection was accepted.
  var hasAccepted: Bool { seen.withLock { $0.hasAccepted } }
  /// Accepted connections that ended without an alert of TLS: the peer had nothing against our certificate.
  var lostCount: Int { seen.withLock { $0.lostCount } }

  /// To be called on the connection's event loop. The future never fails: the pool of connections takes each one for
  /// good and learns of a refusal as of any connection that breaks.
  func opened(_ channel: any Channel) -> EventLoopFuture<Void> {
    channel.eventLoop.makeCompletedFuture {
      let fault = leaf(of: channel).map(accepts) ?? .unreadable
      seen.withLock { seen in
        seen.fault = fault
        if fault == nil { seen.hasAccepted = true }
      }
      let pipeline = channel.pipeline.syncOperations
      guard fault == nil else { return try pipeline.addHandler(RefusedConnection(), position: .first) }
      let watch = AcceptedConnection { [self] in seen.withLock { $0.lostCount += 1 } }
      try pipeline.addHandler(watch, position: .after(pipeline.handler(type: NIOSSLHandler.self)))
    }
  }

  private func leaf(of channel: any Channel) -> Certificate? {
    do {
      return try channel.pipeline.syncOperations.nioSSL_peerCertificate().map { try Certificate($0) }
    } catch {
      // A certificate that cannot be read proves nothing. The reason does not matter.
      return nil
    }
  }
}

/// Stands between TLS and HTTP, and sees how a connection ends before HTTP fails its requests. A peer that refuses our
/// certificate says so by an alert of TLS, behind the handshake; over HTTP/2 the pool then has no connection at all.
private final class AcceptedConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  private let isLost: () -> Void
  private var hasAlert = false

  init(isLost: @escaping () -> Void) { self.isLost = isLost }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if error is BoringSSLError { hasAlert = true }
    context.fireErrorCaught(error)
  }

  func channelInactive(context: ChannelHandlerContext) {
    if !hasAlert { isLost() }
    context.fireChannelInactive()
  }
}

/// Stands between TLS and the socket of a server that is not to get a byte more: drops everything, and closes as soon
/// as the pool has taken the connection.
private final class RefusedConnection: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer

  func handlerAdded(context: ChannelHandlerContext) {
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    context.eventLoop.execute { bound.value.close(promise: nil) }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    promise?.fail(ChannelError.ioOnClosedChannel)
  }
}
