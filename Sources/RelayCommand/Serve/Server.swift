import AsyncHTTPClient
import CoreMetrics
import Foundation
import Logging
import NIOCore
import NIOPosix
import Operations
import Relay
import RelayConfiguration
import RelayCore
import ServiceLifecycle
import Storage
import UnixSignals

/// The object graph of `relay serve`, built top to bottom, and its life.
struct Server {
  private let settings: RelayConfiguration
  /// As it was read last.
  private let present: LiveSetting<LoadedConfiguration>
  private let read: @Sendable () throws(ConfigurationFaults) -> LoadedConfiguration
  private let doctor: DoctorChild
  private let logger: Logger
  private let readiness = Readiness()

  /// - Parameters:
  ///   - doctor: `relay doctor` for the same configuration.
  ///   - read: reads the configuration again.
  init(
    _ loaded: LoadedConfiguration, doctor: DoctorChild, logger: Logger,
    read: @escaping @Sendable () throws(ConfigurationFaults) -> LoadedConfiguration
  ) {
    settings = loaded.configuration
    present = LiveSetting(loaded)
    self.read = read
    self.doctor = doctor
    self.logger = logger
  }

  /// Serves until SIGTERM, SIGINT or `relay drain`.
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

  /// For requests to the operator's own services: a refused connection is a failure now and not ten seconds later.
  private static var outbound: HTTPClient.Configuration {
    var configuration = HTTPClient.Configuration(timeout: .init(connect: .seconds(5)))
    configuration.connectionPool.retryConnectionEstablishment = false
    return configuration
  }

  /// The operator's tools are there from the start; everything else follows as soon as the store answers.
  private func serve(
    _ storage: any Storage, _ coordination: any Coordination, _ metrics: PrometheusRegistry, _ outbound: HTTPClient
  ) async throws {
    let control = DrainControl(window: settings.drain.window)
    await StopSignals(control: control, logger: logger).listen()
    let hangUps = await UnixSignalsSequence(trapping: .sighup)
    let reload = Reload(on: hangUps, changing: present, limits: coordination, logger: logger, read: read)
    let start = Start(waitingForStore: settings.storage.startPatience, unless: control, logger: logger)
    readiness.add("start") { start.reason }
    let api = OperatorAPI { [present] in OperatorTokens(present.value.configuration.operations) }
    let operations = try OperatorListener(
      relay: settings.name.text, host: settings.operations.host, port: settings.operations.port, readiness: readiness,
      registry: metrics,
      drain: control, api: api, eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger,
      onRunning: { [logger] port in logger.notice("operator's tools", metadata: ["port": "\(port)"]) })
    let notifier = SystemdNotifier(ProcessInfo.processInfo.environment, readiness: readiness, control: control)
    // Signals are the drain's: it ends when they have been followed, and the others with it.
    let group = ServiceGroup(
      configuration: .init(
        services: (notifier.map { [Self.essential($0)] } ?? []) + [
          Self.essential(Listening("operator", settings.operations.host, settings.operations.port, operations))
        ],
        logger: Logger(label: "relay.lifecycle", level: .error)))
    // Cancelled when the group fails.
    async let fault = begin(group, start) {
      [reload] + (try await services(storage, coordination, outbound, control, start, api))
    }
    try await group.run()
    if let fault = await fault { throw fault }
  }

  /// Adds `services` to `group` as soon as they can be made; else ends it.
  /// - Returns: what kept them from being made; nil when nothing did, and when the process is to stop before it has
  ///   begun.
  private func begin(
    _ group: ServiceGroup, _ start: Start, _ services: @Sendable () async throws -> [any Service]
  ) async -> (any Error)? {
    do {
      for service in try await services() { await group.addServiceUnlessShutdown(Self.essential(service)) }
      start.ended()
      return nil
    } catch {
      // Not cancelled: the operator's listener finishes what is under way.
      await group.triggerGracefulShutdown()
      return error is Start.GivenUp ? nil : error
    }
  }

  /// Without a name of ours, the group would print the service with all that it holds: a fifth of a start's CPU time.
  private static func essential(_ service: any Service) -> ServiceGroupConfiguration.ServiceConfiguration {
    .init(
      service: service, successTerminationBehavior: .gracefullyShutdownGroup, serviceName: "\(type(of: service))")
  }

  /// - Returns: in the order in which they start; they stop in the reverse order, so that what accepts work goes first.
  private func services(
    _ storage: any Storage, _ coordination: any Coordination, _ outbound: HTTPClient, _ control: DrainControl,
    _ start: Start, _ api: OperatorAPI
  ) async throws -> [any Service] {
    let upkeep = try await prepare(storage, during: start)
    await show(coordination)
    let context = ServingContext(
      settings: settings, storage: storage, coordination: coordination, readiness: readiness, logger: logger)
    let shared = try await SharedGraphs(context, outbound: outbound, present: present)
    let edges = try await EdgeGraphs(context, shared, sender: makeSender(outbound))
    api.open(
      .init(
        store: storage, remover: AccountRemover(store: storage, attachments: shared.attachments.removal),
        limiter: coordination.servedLimiter, signals: coordination, senders: shared.local.senders,
        console: ServingConsole(
          settings, storage: storage, signals: coordination, doctor: doctor, logger: logger), clock: .system))
    control.counts { [hub = shared.local.hub] in hub.connectionCount }
    let drainFirst = DrainFirst(
      control: control, readiness: readiness, state: edges.drain, hub: shared.local.hub, logger: logger)
    return upkeep + shared.services(context) + edges.services(context, shared) + [drainFirst]
  }

  /// Brings the schema up to date, checks the keys of what is stored, and removes what is due.
  /// - Returns: the services that go on with it.
  private func prepare(_ storage: any Storage, during start: Start) async throws -> [any Service] {
    try await prepareSchema(of: storage, settings, during: start) { [logger] step in
      logger.notice("schema migrated", metadata: ["version": "\(step.version)", "name": "\(step.name)"])
    }
    start.storeAnswered()
    let encryptionKeys = EncryptionKeys(settings.storage, store: storage, logger: logger)
    try await encryptionKeys.check()
    let maintenance = Maintenance(
      store: storage, RetentionTerms(messages: settings.messages.retention), logger: logger)
    await maintenance.runOnce()
    readiness.add("storage") {
      do {
        try await storage.ping()
        return storage.refusals.reason
      } catch {
        return "\(error)"
      }
    }
    return [maintenance, WriteWatch(store: storage, logger: logger)]
      + (encryptionKeys.isChanging ? [encryptionKeys] : [])
  }

  /// Tells the operator how this process works with others.
  private func show(_ coordination: any Coordination) async {
    if settings.isShared {
      // Requests can be served without Redis, so it is no reason to be unready: it shows in metrics and the log.
      let state = await coordination.degradation() ?? "connected"
      logger.info("coordination is shared", metadata: ["state": "\(state)"])
    }
    let roles = settings.roles
    RoleMetrics.show(roles)
    if roles != .all { logger.notice("some roles only", metadata: ["roles": "\(roles.names.joined(separator: ", "))"]) }
  }

  private func makeSender(_ client: HTTPClient) -> any Relay.VerificationSender {
    // Another sender needs a restart.
    let sender = settings.verification.sender
    return switch sender {
    case .log: LogSender(logger: logger)
    case .webhook(let url, let secret):
      WebhookSender(
        url: url.text, secret: present.value.configuration.verification.sender.secret(as: sender) ?? secret,
        client: client, logger: logger)
    case .twilio(let account, let token, let from, let url):
      TwilioSender(
        account: account, token: present.value.configuration.verification.sender.secret(as: sender) ?? token,
        from: from, origin: url.text, client: client, logger: logger)
    }
  }
}

extension RelayConfiguration.Client {
  /// The address at which it listens, as this process sees it.
  var url: String {
    "\(tls == nil ? "http" : "https")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
  }
}

extension OperatorTokens {
  init(_ settings: RelayConfiguration.Operations) {
    self.init(read: settings.readTokens, change: settings.changeTokens)
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
