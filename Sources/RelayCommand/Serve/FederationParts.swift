import Federation
import Logging
import Operations
import Relay
import RelayConfiguration
import RelayCore
import ServiceLifecycle

/// Federation's part of the graph; there is none without `federation.port`.
struct FederationParts {
  let courier: any Courier
  let witness: any EpochWitness
  private let settings: RelayConfiguration
  private let port: Int
  private let endpoint: PeerEndpoint
  private let identity: FederationIdentity
  private let registry: PeerRegistry
  private let transport: PeerTransport
  private let logger: Logger

  /// - Returns: nil when federation is off.
  init?(_ settings: RelayConfiguration, storage: any Storage, coordination: any Coordination, logger: Logger) throws {
    guard let port = settings.federation.port else { return nil }
    self.settings = settings
    self.port = port
    self.logger = logger
    endpoint = try settings.federation.endpoint("peers must know where to reach this relay")
    identity = try FederationIdentity(
      folder: IdentityFolder(path: settings.federation.directory), name: settings.name, logger: logger)
    registry = PeerRegistry(store: storage, signals: coordination, logger: logger)
    transport = PeerTransport(identity: identity, registry: registry, logger: logger)
    courier = PeerCourier(registry: registry, transport: transport)
    witness = PeerEpochWitness(registry: registry, transport: transport)
  }

  /// What runs, in the order in which it starts.
  func services(
    _ local: LocalParts, locator: any AttachmentLocator, storage: any Storage, coordination: any Coordination,
    readiness: Readiness
  ) -> [any Service] {
    let state = ListenerState("federation", in: readiness)
    let accounts = local.accounts
    let listener = FederationListener(
      configuration: .init(host: settings.federation.host, port: port), endpoint: endpoint,
      identity: identity, registry: registry,
      services: FederationServices(
        intake: local.intake, dispenser: local.dispenser, directory: storage, peers: storage, signals: coordination,
        limiter: coordination, locator: locator, epochs: storage
      ) { number async throws(Problem) in
        do throws(StoreError) {
          return try await accounts.account(number) != nil
        } catch {
          throw Problem(error)
        }
      },
      clock: .system, logger: logger
    ) { [settings, endpoint, logger] port in
      state.began()
      logger.notice(
        "serving peers", metadata: ["address": "\(settings.federation.host):\(port)", "url": "\(endpoint.text)"])
    }
    let sync = DirectorySync(
      registry: registry, transport: transport, directory: storage, interval: settings.federation.directoryInterval,
      logger: logger)
    return [registry, identity, transport, sync, listener]
  }
}

extension RelayConfiguration.Federation {
  /// `federation.url`. - Throws: `CommandFailure` that says why it is needed.
  func endpoint(_ need: String) throws -> PeerEndpoint {
    guard let url, let endpoint = PeerEndpoint(url.text) else {
      throw CommandFailure("federation.url is not set: \(need). Set it, for example to https://relay.example:9443.")
    }
    return endpoint
  }
}
