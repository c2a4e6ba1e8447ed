import AsyncHTTPClient
import CoreMetrics
import Directory
import Federation
import Hummingbird
import Logging
import NIOPosix
import Operations
import Push
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle
import Storage
import UnixSignals

/// The object graph of `relay serve`, built top to bottom, and its life.
struct Server {
  private let settings: RelayConfiguration
  private let logger: Logger
  private let readiness = Readiness()

  init(_ settings: RelayConfiguration, logger: Logger) {
    self.settings = settings
    self.logger = logger
  }

  /// Serves until SIGTERM or SIGINT.
  /// - Throws: what kept it from starting, in words for the operator.
  func run() async throws {
    let registry = PrometheusRegistry()
    MetricsSystem.bootstrap(registry)
    let storage = try openStorage(settings, logger: logger)
    // After opening, which makes the folder, and before anything is changed.
    let lock = try lockEmbeddedStore(settings)
    let coordination = try openCoordination(settings, logger: logger)
    let outbound = HTTPClient(eventLoopGroupProvider: .singleton, configuration: Self.outbound)
    let outcome: Result<Void, any Error>
    do {
      outcome = .success(try await serve(storage, coordination, registry, outbound))
    } catch {
      outcome = .failure(error)
    }
    await coordination.close()
    await storage.close()
    try await outbound.shutdown()
    withExtendedLifetime(lock) {}
    try outcome.get()
    logger.notice("stopped")
  }

  /// Of requests to the operator's own services: a refused connection is a failure now and not ten seconds later.
  private static var outbound: HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration(timeout: .init(connect: .seconds(5)))
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }

  private func serve(
    _ storage: any Storage, _ coordination: any Coordination, _ metrics: PrometheusRegistry, _ outbound: HTTPClient
  ) async throws {
    let logger = logger
    try await prepareSchema(of: storage, settings) { step in
      logger.notice("schema migrated", metadata: ["version": "\(step.version)", "name": "\(step.name)"])
    }
    let encryptionKeys = EncryptionKeys(settings.storage, store: storage, logger: logger)
    try await encryptionKeys.check()
    let maintenance = Maintenance(store: storage, retention: settings.messages.retention, logger: logger)
    await maintenance.runOnce()
    readiness.add("storage") {
      do {
        try await storage.ping()
        return nil
      } catch {
        return "\(error)"
      }
    }
    if settings.isShared {
      // Requests can be served without Redis, so it is no reason to be unready: it shows in metrics and the log.
      let state = await coordination.degradation() ?? "connected"
      logger.info("coordination is shared", metadata: ["state": "\(state)"])
    }

    let peers = try PeerParts(settings, storage: storage, coordination: coordination, logger: logger)
    let pushTokens = APNsTokens()
    let waking = try WakingParts(settings.push, tokens: pushTokens, storage: storage, logger: logger)
    let local = LocalParts(
      settings, storage: storage, coordination: coordination, peers: peers?.witness, quickPeers: peers?.quickWitness,
      notifier: waking.desk, logger: logger)
    let ledger = try await HandOverLedger.open(storage, clock: .system)
    let federation = peers.map {
      FederationParts(settings, $0, local, ledger: ledger, storage: storage, logger: logger)
    }
    let attachments = try await AttachmentParts(
      settings.attachments, at: settings.client.url, storage: storage, client: outbound, logger: logger)
    let directory = try DirectoryParts(
      settings.directory, storage: storage, coordination: coordination, readiness: readiness, logger: logger)
    let clients = ClientParts(
      settings, local, storage: storage, coordination: coordination, courier: federation?.courier ?? NoPeers(),
      homes: federation?.homes(local, directory: directory.view) ?? NoPeers(), finder: federation?.finder,
      directory: directory, attachments: attachments, sender: makeSender(outbound),
      webPush: WakingParts.webPushTerms(settings.push, by: waking), logger: logger)
    let gateway = try PushGatewayParts(
      settings, tokens: pushTokens, board: coordination.pushBoard, readiness: readiness, logger: logger)
    await local.restores.check()
    let drain = DrainState()
    let notifications = try NotificationParts(
      settings, storage: storage, coordination: coordination, tokens: pushTokens, drain: drain, readiness: readiness,
      logger: logger)
    let client = try ClientListener(
      settings.client, router: clients.router, door: clients.door, drain: drain,
      state: ListenerState("client", in: readiness), logger: logger)
    let control = DrainControl { [hub = local.hub] in hub.connectionCount }
    let operations = OperatorListener(
      host: settings.operations.host, port: settings.operations.port, readiness: readiness, registry: metrics,
      drain: control, eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger,
      onRunning: { port in logger.notice("operator's tools", metadata: ["port": "\(port)"]) })
    let drainFirst = DrainFirst(
      control: control, readiness: readiness, state: drain, hub: local.hub, window: settings.drain.window,
      logger: logger)

    // In the order in which they start; they stop in the reverse order, so that what accepts work goes first.
    let listeners: [any Service] =
      [
        Listening("operator", settings.operations.host, settings.operations.port, operations), maintenance,
      ]
      + directory.services
      + (encryptionKeys.isChanging ? [encryptionKeys] : [])
      + waking.services(local, storage: storage, coordination: coordination)
      // Receipts for what sessions acknowledge at the end still go to peers.
      + (federation?.services(storage: storage, coordination: coordination) ?? []) + clients.services
      + (federation.map {
        [
          $0.listener(
            local, locator: attachments.locator, storage: storage, coordination: coordination, readiness: readiness)
        ]
      } ?? []) + (gateway?.services ?? []) + (notifications?.services ?? []) + [local.restores] + client.services
    try await ServiceGroup(
      configuration: .init(
        // Signals are the drain's: it ends when they have been followed, and the others with it.
        services: (listeners + [drainFirst]).map {
          .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup)
        },
        logger: Logger(label: "relay.lifecycle", level: .error))
    ).run()
  }

  private func makeSender(_ client: HTTPClient) -> any Relay.VerificationSender {
    switch settings.verification.sender {
    case .log: LogSender(logger: logger)
    case .webhook(let url, let secret):
      WebhookSender(url: url.text, secret: secret, client: client, logger: logger)
    case .twilio(let account, let token, let from, let url):
      TwilioSender(account: account, token: token, from: from, origin: url.text, client: client, logger: logger)
    }
  }
}

extension RelayConfiguration.Client {
  /// Where it listens, as this process sees it.
  var url: String {
    "\(tls == nil ? "http" : "https")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
  }
}

extension RelayConfiguration {
  /// Whether limits and signals live in Redis.
  var isShared: Bool { coordination.location != .local }
}

extension Logger {
  fileprivate init(label: String, level: Logger.Level) {
    self.init(label: label)
    logLevel = level
  }
}
