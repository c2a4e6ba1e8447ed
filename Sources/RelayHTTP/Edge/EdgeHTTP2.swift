package import HummingbirdCore
package import HummingbirdHTTP2
package import NIOCore

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
