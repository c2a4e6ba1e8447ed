import HTTPTypes
import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
package import Logging
import NIOCore
import NIOHTTP1
package import NIOSSL
package import RelayCore
package import RelayHTTP
import ServiceLifecycle

/// The address and the bounds of the interface for device notifications.
package struct NotificationListenerSettings: Sendable {
  package var host: String
  /// 0 takes any free one; `onListening` tells which.
  package var port: Int
  package var proxies: TrustedProxies
  /// Further connections wait in the kernel's backlog.
  package var connectionsMax = 4096

  package init(host: String, port: Int, proxies: TrustedProxies) {
    self.host = host
    self.port = port
    self.proxies = proxies
  }
}

/// The listener for apps and their operators' servers: HTTP/1.1, or with certificates TLS with HTTP/2 too.
package struct NotificationListener: Service {
  private let settings: NotificationListenerSettings
  private let tls: (@Sendable () -> NIOSSLContext)?
  private let drain: DrainState
  private let responder: RouterResponder<NotificationContext>
  private let logger: Logger
  private let onListening: @Sendable (Int) async -> Void

  private static let idleTimeout = TimeAmount.seconds(60)
  private static let handshakeTimeout = TimeAmount.seconds(10)
  /// A request's line may be as long as a request, in which GET brings all its parameters.
  private static let headBytesMax = 80 << 10

  /// - Parameters:
  ///   - tls: the certificates in force; nil: HTTP as it is.
  ///   - drain: whether the process is about to stop.
  ///   - onListening: called once with the bound port when requests are accepted.
  package init(
    _ settings: NotificationListenerSettings, parts: NotificationEdgeParts, tls: (@Sendable () -> NIOSSLContext)?,
    drain: DrainState, logger: Logger, onListening: @escaping @Sendable (Int) async -> Void = { _ in }
  ) {
    self.settings = settings
    self.tls = tls
    self.drain = drain
    self.logger = logger
    self.onListening = onListening
    let router = Router(context: NotificationContext.self)
    router.add(middleware: ProblemMiddleware<NotificationContext>(edge: "device-notifications"))
    router.add(middleware: Closing(drain: drain))
    let methods = NotificationMethods(parts: parts)
    let lookups = LookupGuard(
      limiter: parts.limiter, proxies: ForwardedMiddleware(proxies: settings.proxies, isSecure: tls != nil))
    NotificationsController(methods: methods, lookups: lookups, logger: logger).addRoutes(to: router)
    WebServiceController(methods: methods, lookups: lookups, isSecure: tls != nil, logger: logger).addRoutes(to: router)
    responder = router.buildResponder()
  }

  package func run() async throws {
    try await Application(
      responder: responder, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(settings.host, port: settings.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(settings.connectionsMax)),
      onServerRunning: { [onListening, settings] channel in
        await onListening(channel.localAddress?.port ?? settings.port)
      },
      logger: logger
    ).run()
  }

  private var server: HTTPServerBuilder {
    let (tls, drain) = (tls, drain)
    return HTTPServerBuilder { responder in
      let http1 = EdgeHTTP1(
        responder: responder, idleTimeout: Self.idleTimeout,
        headLimits: .init(
          maxHeaderFieldSize: Self.headBytesMax, maxHeaderListSize: Self.headBytesMax, maxHeaderFieldCount: 100),
        drain: drain)
      guard let tls else { return ClaimedChannel(http1) }
      return ClaimedChannel(
        ALPNChannel(
          tls: { _, _ in NIOSSLServerHandler(context: tls()) }, handshakeTimeout: Self.handshakeTimeout, http1: http1,
          http2: EdgeHTTP2.channel(responder: responder, idleTimeout: .seconds(60), stalledTimeout: .seconds(30)),
          headerListMax: Self.headBytesMax))
    }
  }
}

/// 503 while the process is about to stop.
private struct Closing: RouterMiddleware {
  let drain: DrainState

  func handle(
    _ request: Request, context: NotificationContext,
    next: (Request, NotificationContext) async throws -> Response
  ) async throws -> Response {
    guard !drain.isDraining else { throw Problem(.unavailable, retryAfter: .seconds(1)) }
    return try await next(request, context)
  }
}
