import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
package import Logging
import NIOCore
import NIOSSL
package import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The address and the bounds under which peers are served.
package struct FederationListenerConfiguration: Sendable {
  package var host: String
  /// 0 picks a free one.
  package var port: Int
  /// Open connections that have shaken hands, and there is room for those that have not; more wait in the kernel's
  /// backlog. A peer's process needs one.
  package var connectionsMax = 1024
  /// Connections of one peer. The newest above the limit is refused, so that no peer takes all. The number is enough
  /// for a dozen processes, each of which may open a second connection while the first ends.
  package var connectionsPerPeerMax = 64
  /// Both sides' round trips and signatures, with slack for a busy machine.
  package var handshakeTimeout = Duration.seconds(5)
  /// The bounds of unfinished handshakes.
  var handshakes = HandshakeBounds()
  /// Load balancers: they pass on connections of others, and do not say whose. So a share for one address does not
  /// apply to them.
  package var balancers: [AddressRange] = []
  /// Peers that have nothing to say come back within a round trip.
  package var idleTimeout = Duration.seconds(120)
  /// A request whose sender stops in its midst.
  package var stalledRequestTimeout = Duration.seconds(30)
  /// How long open requests may take to finish once the relay shuts down.
  package var gracefulCloseTimeout = Duration.seconds(20)
  /// How late a peer that waits for a change of our listing hears of one whose signal was lost; as late as one that
  /// asks by default.
  package var listingRecheck = Duration.seconds(2)
  /// In a batch in order, the time for hand-overs that must be taken one after the other: half of the time that the
  /// sender waits. The rest is put off.
  package var laneTimeMax = Duration.seconds(5)

  package init(host: String, port: Int) {
    self.host = host
    self.port = port
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
  private let keeper: ConnectionKeeper
  private let door: HandshakeDoor
  private let registry: PeerRegistry
  private let listing: ListingWatch<ContinuousClock>
  private let responder: RouterResponder<FederationContext>
  private let logger: Logger
  private let onListening: @Sendable (Int) async -> Void

  /// - Parameters:
  ///   - endpoint: `federation.url`, as the answer to a redeemed invitation names it.
  ///   - onListening: called with the bound port.
  package init(
    configuration: FederationListenerConfiguration, endpoint: PeerEndpoint, identity: FederationIdentity,
    addresses: PeerAddresses, registry: PeerRegistry, services: FederationServices, clock: WallClock, logger: Logger,
    onListening: @escaping @Sendable (Int) async -> Void = { _ in }
  ) {
    self.configuration = configuration
    self.identity = identity
    self.registry = registry
    self.logger = logger
    self.onListening = onListening
    let refusals = PeerCounters.ofRefusals()
    verifier = HandshakeVerifier(
      registry: registry, store: services.peers, seen: identity.seenLeaves, clock: clock)
    keeper = ConnectionKeeper(
      registry: registry, store: services.peers, perPeerMax: configuration.connectionsPerPeerMax, clock: clock,
      refusals: refusals, logger: logger)
    door = Self.door(configuration, addresses: addresses, registry: registry, logger: logger)
    listing = Self.listing(configuration, services, registry: registry)
    let edge = PeerEdge(
      services: services, identity: identity, endpoint: endpoint, addresses: addresses, registry: registry,
      listing: listing, laneTimeMax: configuration.laneTimeMax, refusals: refusals, clock: clock)
    responder = edge.router().buildResponder()
  }

  /// It knows which addresses peers have come from.
  private static func door(
    _ configuration: FederationListenerConfiguration, addresses: PeerAddresses, registry: PeerRegistry, logger: Logger
  ) -> HandshakeDoor {
    let cameFrom = PeerSources(addresses: addresses)
    registry.onChange(ofConditions: false) { [weak cameFrom] table in cameFrom?.tableChanged(table) }
    cameFrom.tableChanged(registry.current)
    return HandshakeDoor(
      configuration.handshakes, sources: cameFrom, balancers: configuration.balancers, logger: logger)
  }

  private static func listing(
    _ configuration: FederationListenerConfiguration, _ services: FederationServices, registry: PeerRegistry
  ) -> ListingWatch<ContinuousClock> {
    let listing = ListingWatch(
      directory: services.directory, signals: services.signals, recheck: configuration.listingRecheck,
      clock: ContinuousClock())
    // A peer that is none any more is told at once.
    registry.onChange(ofConditions: false) { [weak listing] _ in listing?.wakeAll() }
    return listing
  }

  /// - Throws: `FederationError.cannotListen` when the port is taken.
  package func run() async throws {
    let application = Application(
      responder: responder, server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(configuration.host, port: configuration.port), serverName: nil,
        availableConnectionsDelegate: MaximumAvailableConnections(
          configuration.connectionsMax + configuration.handshakes.placesMax)),
      onServerRunning: { [onListening] channel in await onListening(channel.localAddress?.port ?? 0) },
      logger: logger)
    do {
      try await withThrowingDiscardingTaskGroup { group in
        group.addTask { await self.keeper.run() }
        group.addTask { await self.door.sources.run() }
        group.addTask { await self.listing.run() }
        defer { group.cancelAll() }
        try await withGracefulShutdownHandler {
          try await application.run()
        } onGracefulShutdown: {
          listing.close()
        }
      }
    } catch {
      guard let fault = ListenFault(error, at: configuration.host, configuration.port, keys: "federation") else {
        throw error
      }
      throw FederationError(.cannotListen, fault.text, remedy: fault.remedy)
    }
  }

  /// Ours have a few hundred bytes.
  private static let headerBounds = EdgeHTTP1.HeadLimits(
    maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 16 << 10, maxHeaderFieldCount: 100)

  private var server: HTTPServerBuilder {
    HTTPServerBuilder { [configuration, identity, verifier, keeper, door, registry] responder in
      let channel = ALPNChannel(
        tls: { channel, logger in
          NIOSSLServerHandler(
            context: identity.serverContext,
            customVerificationCallbackWithMetadata: verifier.callback(
              remote: channel.remoteAddress?.ipAddress ?? "unknown", logger: logger))
        },
        handshakeTimeout: TimeAmount(configuration.handshakeTimeout),
        http1: EdgeHTTP1(
          responder: responder, idleTimeout: TimeAmount(configuration.idleTimeout), headLimits: Self.headerBounds),
        http2: EdgeHTTP2.channel(
          responder: responder, idleTimeout: configuration.idleTimeout,
          stalledTimeout: TimeAmount(configuration.stalledRequestTimeout)),
        around: { channel, logger, serve in
          let proved = await ConnectionIdentity.of(channel)
          door.shookHands(channel, as: proved.flatMap { registry.current.peer(proving: $0) }?.name)
          guard let proved else {
            if channel.isActive {
              logger.warning("federation: connection closed, it showed no certificate (a resumed session)")
              channel.close(promise: nil)
            }
            // Served even then: `PeerGate` refuses what proved nothing, and a channel must not be dropped.
            return await serve()
          }
          await keeper.serve(channel, proved) {
            await ConnectionIdentity.$current.withValue(proved) { await serve() }
          }
        })
      return GuardedChannel(ClaimedChannel(channel, grace: configuration.gracefulCloseTimeout), door: door)
    }
  }
}
