package import HummingbirdCore
package import Logging
package import NIOCore
package import NIOHTTP1

/// The common terms of a listener's connections for WebSockets.
package struct SocketTerms: Sendable {
  let authorizer: any SocketAuthorizer
  let forwarded: ForwardedMiddleware
  let drain: DrainState
  let watch: SocketWatch
  let times: SocketTimes
  let headLimits: NIOHTTPDecoderLimitConfiguration
  let metrics = RequestMetrics(edge: "client")
  let failures = FailedRequests()

  /// - Parameters:
  ///   - forwarded: finds out where a request comes from.
  ///   - headLimits: of requests to the authorizer; all others have those of the HTTP/1.1 channel.
  package init(
    authorizer: any SocketAuthorizer, forwarded: ForwardedMiddleware, drain: DrainState, watch: SocketWatch,
    headLimits: NIOHTTPDecoderLimitConfiguration, times: SocketTimes = SocketTimes()
  ) {
    self.authorizer = authorizer
    self.forwarded = forwarded
    self.drain = drain
    self.watch = watch
    self.headLimits = headLimits
    self.times = times
  }
}

/// A connection over HTTP/1.1 that becomes a WebSocket if its first request asks for one at the door. Any other
/// connection is `HTTP1`'s from its first byte. To be served inside a `ClaimedChannel`, behind TLS or not.
///
/// A WebSocket needs no task: `handle` returns when one has been opened, and the connection lives on by itself. To
/// stop the listener, wait for `SocketWatch.allClosed`.
package struct SocketUpgradeChannel<HTTP1: ServerChildChannel>: ServerChildChannel {
  package struct Value: ServerChildChannelValue {
    fileprivate let gate: NIOLoopBound<UpgradeHandler<HTTP1>>
    fileprivate let arrival: EventLoopFuture<UpgradeHandler<HTTP1>.Arrival>
    package let channel: any Channel
  }

  private let http1: HTTP1
  private let terms: SocketTerms

  package init(_ http1: HTTP1, _ terms: SocketTerms) {
    self.http1 = http1
    self.terms = terms
  }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      try ReadBuffers.keepNone(channel)
      let pipeline = channel.pipeline.syncOperations
      // There are none without TLS, which throws.
      let buffers = try? pipeline.handler(type: TLSBuffers.self)
      let gate = UpgradeHandler(terms, http1: http1, buffers: buffers, on: channel.eventLoop, logger: logger)
      try pipeline.addHandler(gate)
      return Value(
        gate: NIOLoopBound(gate, eventLoop: channel.eventLoop), arrival: gate.arrival, channel: channel)
    }
  }

  package func handle(value: Value, logger: Logger) async {
    do {
      switch try await value.arrival.get() {
      case .http(let connection): await http1.handle(value: connection, logger: logger)
      case .socket(let request):
        let admission = await terms.authorizer.admit(request)
        value.channel.eventLoop.execute { value.gate.value.decide(admission) }
      }
    } catch {
      // Closed already, or being answered.
      logger.trace("connection without a request", metadata: ["error": "\(error)"])
    }
  }
}
