package import HummingbirdCore
package import HummingbirdHTTP2
package import Logging
package import NIOCore
import NIOHTTP2
package import NIOSSL

/// A TLS connection that speaks what ALPN agrees on: HTTP/2, or else `HTTP1`.
///
/// Unlike Hummingbird's own upgrade channel it makes the TLS handler anew for each connection, so that certificates
/// can be replaced under a running listener, and lets `around` bind what the handshake proved to everything that the
/// connection's requests run in (task-locals reach the tasks of HTTP/2's streams). To be served inside a
/// `ClaimedChannel`. `HTTP1` may return from `handle` while its connection lives on.
package struct ALPNChannel<HTTP1: ServerChildChannel>: ServerChildChannel {
  package struct Value: ServerChildChannelValue {
    fileprivate let negotiated: EventLoopFuture<NIONegotiatedHTTPVersion<HTTP1.Value, HTTP2Channel.Value>>
    package let channel: any Channel
  }
  package typealias Around = @Sendable (any Channel, Logger, @Sendable () async -> Void) async -> Void

  private let tls: @Sendable (any Channel, Logger) throws -> NIOSSLServerHandler
  private let handshakeTimeout: TimeAmount
  private let http1: HTTP1
  private let http2: HTTP2Channel
  private let headerListMax: Int?
  private let times: RequestTimes
  private let around: Around

  /// - Parameters:
  ///   - tls: makes the TLS handler of a new connection; its context must offer `h2` and `http/1.1`.
  ///   - handshakeTimeout: a connection that has not agreed on a protocol by then is closed.
  ///   - headerListMax: bytes of the fields of one request over HTTP/2; nil: 16 KiB. It holds from when the client has
  ///     taken note of it: before its first request, unless the client does not wait for the server's first word.
  ///   - times: of the connection over HTTP/2; HTTP/1.1 has its own.
  ///   - around: runs after the handshake; must call its last argument, also when it has closed the connection.
  package init(
    tls: @escaping @Sendable (any Channel, Logger) throws -> NIOSSLServerHandler, handshakeTimeout: TimeAmount,
    http1: HTTP1, http2: HTTP2Channel, headerListMax: Int? = nil, times: RequestTimes = RequestTimes(),
    around: @escaping Around = { _, _, serve in await serve() }
  ) {
    self.tls = tls
    self.handshakeTimeout = handshakeTimeout
    self.http1 = http1
    self.http2 = http2
    self.headerListMax = headerListMax
    self.times = times
    self.around = around
  }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    let (guardian, buffers) = (QuiesceGuard(grace: .zero), TLSBuffers())
    do {
      try ReadBuffers.keepNone(channel)
      let handler = try tls(channel, logger)
      try PagedBuffers.during(channel, for: buffers) {
        try channel.pipeline.syncOperations.addHandlers([guardian, buffers, handler])
      }
    } catch {
      return channel.eventLoop.makeFailedFuture(error)
    }
    let bound = NIOLoopBound((guardian, buffers), eventLoop: channel.eventLoop)
    let timer = channel.eventLoop.scheduleTask(in: handshakeTimeout) { channel.close(promise: nil) }
    return channel.configureHTTP2AsyncSecureUpgrade { channel in
      http1.setup(channel: channel, logger: logger)
    } http2ConnectionInitializer: { channel in
      http2.setup(channel: channel, logger: logger).flatMapThrowing { value in
        try ReadBuffers.keepSome(channel)
        channel.triggerUserOutboundEvent(ConnectionEvent.requestCame, promise: nil)
        let pipeline = channel.pipeline.syncOperations
        let frames = try pipeline.handler(type: NIOHTTP2Handler.self)
        try pipeline.addHandler(DeferredCloseHandler(goodbye: Self.goodbye), position: .after(frames))
        try pipeline.addHandler(FrameTimer(times.head), position: .before(frames))
        if let headerListMax {
          // Hummingbird's channel has no setting for it: it follows the connection's first ones.
          let settings = [HTTP2Setting(parameter: .maxHeaderListSize, value: headerListMax)]
          channel.writeAndFlush(
            HTTP2Frame(streamID: .rootStream, payload: .settings(.settings(settings))), promise: nil)
        }
        return value
      }
    }
    .map { negotiated in
      negotiated.whenComplete { _ in
        timer.cancel()
        let (guardian, buffers) = bound.value
        channel.pipeline.syncOperations.removeHandler(guardian, promise: nil)
        channel.pipeline.syncOperations.removeHandler(buffers, promise: nil)
      }
      return Value(negotiated: negotiated, channel: channel)
    }
  }

  private static var goodbye: TimeAmount { .seconds(30) }

  package func handle(value: Value, logger: Logger) async {
    do {
      let version = try await value.negotiated.get()
      await around(value.channel, logger) {
        switch version {
        case .http1_1(let connection): await http1.handle(value: connection, logger: logger)
        case .http2(let connection):
          await http2.handle(value: connection, logger: logger)
          // As a rule it is closed already.
          value.channel.close(promise: nil)
        }
      }
    } catch {
      logger.debug("TLS handshake failed", metadata: ["error": "\(FaultWords.of(error))"])
      value.channel.close(promise: nil)
    }
  }
}
