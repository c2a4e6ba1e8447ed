import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The clients' listener: HTTP/1.1 and WebSockets, or with certificates TLS with HTTP/2 too, reloaded when the files
/// change.
struct ClientListener {
  let services: [any Service]

  /// - Parameters:
  ///   - authorizer: decides on WebSockets; nil: there are none.
  ///   - drain: whether clients are to be sent elsewhere.
  ///   - load: what all connections ask for, and those over WebSockets.
  /// - Throws: `CommandFailure` when certificate and key cannot be used.
  init(
    _ settings: RelayConfiguration.Client, router: Router<ClientContext>, authorizer: (any SocketAuthorizer)?,
    drain: DrainState, load: RequestLoad, state: ListenerState, logger: Logger
  ) throws {
    let sockets = SocketWatch()
    let terms = authorizer.map { Self.terms($0, settings, drain: drain, sockets: sockets) }
    let shares = ConnectionShares(
      share: max(1, settings.connectionsMax / Self.addressesMin),
      proxies: settings.trustedProxies)
    let server: HTTPServerBuilder
    var services: [any Service] = []
    if let tls = settings.tls {
      let (context, watches) = try ServerCertificate.reloading(tls, keys: "client.tls", logger: logger)
      services += watches
      server = HTTPServerBuilder { responder in
        let http1 = Self.http1(responder, drain: drain, authorizer: authorizer, load: load)
        guard let terms else { return Self.secure(context, http1, responder, shares, load) }
        return Self.secure(context, SocketUpgradeChannel(http1, terms), responder, shares, load)
      }
    } else {
      server = HTTPServerBuilder { responder in
        let http1 = Self.http1(responder, drain: drain, authorizer: authorizer, load: load)
        guard let terms else { return ClaimedChannel(SharedChannel(http1, shares)) }
        return ClaimedChannel(SharedChannel(SocketUpgradeChannel(http1, terms), shares))
      }
    }
    let application = Application(
      router: router, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(settings.host, port: settings.port), serverName: nil, backlog: Self.backlog,
        availableConnectionsDelegate: MaximumAvailableConnections(settings.connectionsMax)),
      onServerRunning: { channel in
        state.began()
        logger.notice(
          "serving clients",
          metadata: [
            "address": "\(settings.host):\(channel.localAddress?.port ?? settings.port)",
            "tls": "\(settings.tls != nil)",
          ])
      },
      logger: logger)
    services.append(
      Listening("client", settings.host, settings.port, SocketService(application, sockets: sockets)))
    self.services = services
  }

  private static let backlog = 1024
  /// So many addresses it takes at least to use all connections up. WebSockets and trusted proxies do not count, so
  /// that a network behind one address stays far below its share.
  private static let addressesMin = 4
  /// A connection without a request for so long is closed; clients come back.
  private static let requestIdleTimeout = Duration.seconds(90)
  private static let handshakeTimeout = TimeAmount.seconds(10)
  /// A request whose sender stops in its midst.
  private static let stalledRequestTimeout = TimeAmount.seconds(30)
  private static let (headFieldBytesMax, headBytesMax, headFieldsMax) = (16 << 10, 32 << 10, 100)

  private static func http1(
    _ responder: @escaping HTTPChannelHandler.Responder, drain: DrainState, authorizer: (any SocketAuthorizer)?,
    load: RequestLoad
  ) -> EdgeHTTP1 {
    EdgeHTTP1(
      responder: responder, idleTimeout: TimeAmount(requestIdleTimeout),
      headLimits: .init(
        maxHeaderFieldSize: headFieldBytesMax, maxHeaderListSize: headBytesMax, maxHeaderFieldCount: headFieldsMax),
      drain: drain, authorizer: authorizer, load: load)
  }

  private static func terms(
    _ authorizer: any SocketAuthorizer, _ settings: RelayConfiguration.Client, drain: DrainState, sockets: SocketWatch
  ) -> SocketTerms {
    var limits = NIOHTTPDecoderLimitConfiguration()
    limits.maxHeaderFieldSize = headFieldBytesMax
    limits.maxHeaderListSize = headBytesMax
    limits.maxHeaderFieldCount = headFieldsMax
    return SocketTerms(
      authorizer: authorizer,
      forwarded: settings.forwarded,
      drain: drain, watch: sockets, headLimits: limits)
  }

  private static func secure<HTTP1: ServerChildChannel>(
    _ context: @escaping @Sendable () -> NIOSSLContext, _ http1: HTTP1,
    _ responder: @escaping HTTPChannelHandler.Responder, _ shares: ConnectionShares, _ load: RequestLoad
  ) -> any ServerChildChannel {
    let negotiated = ALPNChannel(
      tls: { _, _ in NIOSSLServerHandler(context: context()) }, handshakeTimeout: handshakeTimeout,
      http1: http1,
      http2: EdgeHTTP2.channel(
        responder: responder, idleTimeout: requestIdleTimeout, stalledTimeout: stalledRequestTimeout, load: load))
    return ClaimedChannel(SharedChannel(negotiated, shares))
  }
}

extension RelayConfiguration.Client {
  /// The proxies that bring requests, and whether over TLS.
  var forwarded: ForwardedMiddleware {
    ForwardedMiddleware(proxies: TrustedProxies(trustedProxies), isSecure: tls != nil)
  }
}
