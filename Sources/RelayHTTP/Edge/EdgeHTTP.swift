package import HummingbirdCore
package import HummingbirdHTTP2
package import Logging
package import NIOCore
import NIOHTTP1

/// HTTP/1.1 as every listener serves it: Hummingbird's channel, with `FinalAnswers` and time limits for whoever sends.
package struct EdgeHTTP1: ServerChildChannel {
  package typealias Value = HTTP1Channel.Value
  package typealias HeadLimits = HTTP1Channel.Configuration.DecoderConfiguration

  private let base: HTTP1Channel
  private let times: RequestTimes
  private let drain: DrainState?
  private let authorizer: (any SocketAuthorizer)?
  private let load: RequestLoad?

  /// - Parameters:
  ///   - idleTimeout: a connection without a request for so long is closed.
  ///   - drain: whether answers are to be the last of their connections.
  ///   - authorizer: where requests for WebSockets go to that come first on their connections.
  ///   - load: says whether there is room for a request; nil: there always is.
  ///   - handlers: further ones, behind the codec.
  package init(
    responder: @escaping HTTPChannelHandler.Responder, idleTimeout: TimeAmount, headLimits: HeadLimits = .init(),
    times: RequestTimes = RequestTimes(), drain: DrainState? = nil, authorizer: (any SocketAuthorizer)? = nil,
    load: RequestLoad? = nil, handlers: @escaping @Sendable () -> [any RemovableChannelHandler] = { [] }
  ) {
    base = HTTP1Channel(
      responder: responder,
      configuration: .init(
        additionalChannelHandlers: handlers(), idleTimeout: idleTimeout, httpDecoderConfiguration: headLimits))
    self.times = times
    self.drain = drain
    self.authorizer = authorizer
    self.load = load
  }

  package func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    base.setup(channel: channel, logger: logger).flatMapThrowing { value in
      let pipeline = channel.pipeline.syncOperations
      let parser = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
      let answers = FinalAnswers(drain: drain, authorizer: authorizer, load: load, times: times)
      try pipeline.addHandler(answers, position: .after(parser))
      try pipeline.addHandler(HeadTimer(times.head, answers), position: .before(parser))
      return value
    }
  }

  package func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}

/// HTTP/2 as every listener serves it: Hummingbird's channel, with `EarlyAnswers` and a time limit for bodies. To be
/// served by an `ALPNChannel`, which limits the rest.
package enum EdgeHTTP2 {
  /// - Parameters:
  ///   - idleTimeout: a connection without a request for so long is closed.
  ///   - stalledTimeout: a request of which nothing comes for so long is ended.
  ///   - load: says whether there is room for a request; nil: there always is.
  package static func channel(
    responder: @escaping HTTPChannelHandler.Responder, idleTimeout: Duration, stalledTimeout: TimeAmount,
    times: RequestTimes = RequestTimes(), load: RequestLoad? = nil
  ) -> HTTP2Channel {
    HTTP2Channel(
      responder: responder,
      configuration: .init(
        idleTimeout: idleTimeout,
        streamConfiguration: .init(
          additionalChannelHandlers: [EarlyAnswers(times.body, load: load)], idleTimeout: stalledTimeout)))
  }
}
