import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
package import Logging
import NIOCore
import NIOSSL
package import RelayCore
import RelayHTTP
import ServiceLifecycle

/// Where and within which bounds peers are served.
package struct FederationListenerConfiguration: Sendable {
  package var host: String
  /// 0 picks a free one.
  package var port: Int
  /// Open connections; more wait in the kernel's backlog. A peer's process needs one.
  package var connectionsMax = 1024
  /// Both sides' round trips and signatures, with slack for a busy machine.
  package var handshakeTimeout = Duration.seconds(10)
  /// Peers that have nothing to say come back within a round trip.
  package var idleTimeout = Duration.seconds(120)
  /// A request whose sender stops in its midst.
  package var stalledRequestTimeout = Duration.seconds(30)
  /// How long open requests may take to finish once the relay shuts down.
  package var gracefulCloseTimeout = Duration.seconds(20)

  package init(host: String, port: Int) {
    self.host = host
    self.port = port
  }
}

/// What the listener hands requests on to.
package struct FederationServices: Sendable {
  let intake: any Intake
  let dispenser: any PreKeyDispenser
  let directory: any DirectoryStore
  let peers: any PeerStore
  let signals: any SignalBus
  let limiter: any RateLimiter
  let locator: any AttachmentLocator
  let epochs: any EpochStore
  let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool

  /// - Parameters:
  ///   - locator: says where attachments of our accounts are downloaded.
  ///   - epochs: remembers peers' epochs.
  ///   - isLocalAccount: whether a number is registered here; no peer may speak for it then.
  package init(
    intake: any Intake, dispenser: any PreKeyDispenser, directory: any DirectoryStore, peers: any PeerStore,
    signals: any SignalBus, limiter: any RateLimiter, locator: any AttachmentLocator, epochs: any EpochStore,
    isLocalAccount: @escaping @Sendable (AccountNumber) async throws(Problem) -> Bool
  ) {
    self.intake = intake
    self.dispenser = dispenser
    self.directory = directory
    self.peers = peers
    self.signals = signals
    self.limiter = limiter
    self.locator = locator
    self.epochs = epochs
    self.isLocalAccount = isLocalAccount
  }
}

/// The peers' side of a relay: TLS 1.3 with client certificates, HTTP/2 or HTTP/1.1.
///
/// HTTP/2 connections carry at most 100 streams and 16 KiB of headers (NIOHTTP2's settings); bodies are bounded by
/// each controller.
package struct FederationListener: Service {
  private let configuration: FederationListenerConfiguration
  private let identity: FederationIdentity
  private let verifier: HandshakeVerifier
  private let responder: RouterResponder<FederationContext>
  private let logger: Logger
  private let onListening: @Sendable (Int) async -> Void

  /// - Parameters:
  ///   - endpoint: `federation.url`, as the answer to a redeemed invitation names it.
  ///   - onListening: called with the bound port.
  package init(
    configuration: FederationListenerConfiguration, endpoint: PeerEndpoint, identity: FederationIdentity,
    registry: PeerRegistry, services: FederationServices, clock: WallClock, logger: Logger,
    onListening: @escaping @Sendable (Int) async -> Void = { _ in }
  ) {
    self.configuration = configuration
    self.identity = identity
    self.logger = logger
    self.onListening = onListening
    verifier = HandshakeVerifier(registry: registry, store: services.peers, clock: clock)
    let router = Router(context: FederationContext.self)
    router.add(middleware: ProblemMiddleware(edge: "federation"))
    router.add(middleware: PeerGate(registry: registry, clock: clock))
    let redeemer = InvitationRedeemer(
      name: identity.credentials.name, endpoint: endpoint, store: services.peers, signals: services.signals,
      registry: registry, clock: clock)
    PeeringController(redeemer: redeemer).addRoutes(to: router)
    ListingController(directory: services.directory).addRoutes(to: Self.scoped(router, .directory))
    PeerKeysController(dispenser: services.dispenser, limiter: services.limiter)
      .addRoutes(to: Self.scoped(router, .keys))
    PeerMessagesController(
      intake: services.intake, limiter: services.limiter, isLocalAccount: services.isLocalAccount
    )
    .addRoutes(to: Self.scoped(router, .messages))
    PeerAttachmentsController(locator: services.locator).addRoutes(to: Self.scoped(router, .attachments))
    // Whatever the peering covers: it gives nothing away.
    EpochController(memory: EpochMemory(store: services.epochs)).addRoutes(to: router.group(context: PeerContext.self))
    responder = router.buildResponder()
  }

  /// - Throws: `FederationError.cannotListen` when the port is taken.
  package func run() async throws {
    let application = Application(
      responder: responder, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(configuration.host, port: configuration.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(configuration.connectionsMax)),
      onServerRunning: { [onListening] channel in await onListening(channel.localAddress?.port ?? 0) },
      logger: logger)
    do {
      try await application.run()
    } catch let error as IOError {
      throw FederationError(
        .cannotListen,
        "federation.host and federation.port: \(configuration.host):\(configuration.port) cannot be listened on:"
          + " \(error).",
        remedy: "Stop what listens there, or choose another port.")
    }
  }

  private static func scoped(
    _ router: Router<FederationContext>, _ scope: Peer.Scope
  ) -> RouterGroup<PeerContext> {
    router.group(context: PeerContext.self).add(middleware: ScopeGate(scope: scope))
  }

  /// Ours have a few hundred bytes.
  private static let headerBounds = HTTP1Channel.Configuration.DecoderConfiguration(
    maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 16 << 10, maxHeaderFieldCount: 100)

  private var server: HTTPServerBuilder {
    HTTPServerBuilder { [configuration, identity, verifier] responder in
      let stream = HTTP1Channel.Configuration(idleTimeout: TimeAmount(configuration.stalledRequestTimeout))
      let channel = ALPNChannel(
        tls: { channel, logger in
          NIOSSLServerHandler(
            context: identity.serverContext,
            customVerificationCallbackWithMetadata: verifier.callback(
              remote: channel.remoteAddress?.ipAddress ?? "unknown", logger: logger))
        },
        handshakeTimeout: TimeAmount(configuration.handshakeTimeout),
        http1: HTTP1Channel(
          responder: responder,
          configuration: .init(
            idleTimeout: TimeAmount(configuration.idleTimeout), httpDecoderConfiguration: Self.headerBounds)),
        http2: HTTP2Channel(
          responder: responder,
          configuration: .init(
            idleTimeout: configuration.idleTimeout, streamConfiguration: stream)),
        around: { channel, logger, serve in
          let proved = await ConnectionIdentity.of(channel)
          if proved == nil, channel.isActive {
            logger.warning("federation: connection closed, it showed no certificate (a resumed session)")
            channel.close(promise: nil)
          }
          // Served even then: `PeerGate` refuses what proved nothing, and a channel must not be dropped.
          await ConnectionIdentity.$current.withValue(proved) { await serve() }
        })
      return ClaimedChannel(channel, grace: configuration.gracefulCloseTimeout)
    }
  }
}
