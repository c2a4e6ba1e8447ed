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
  /// In the order in which they start.
  let services: [any Service]

  /// - Returns: nil when federation is off.
  init?(
    _ settings: RelayConfiguration, storage: any Storage, coordination: any Coordination, accounts: AccountCache,
    intake: any Intake, dispenser: any PreKeyDispenser, readiness: Readiness, logger: Logger
  ) throws {
    guard let port = settings.federation.port else { return nil }
    let endpoint = try settings.federation.endpoint("peers must know where to reach this relay")
    let state = ListenerState("federation", in: readiness)
    let identity = try FederationIdentity(
      folder: IdentityFolder(path: settings.federation.directory), name: settings.name, logger: logger)
    let registry = PeerRegistry(store: storage, signals: coordination, logger: logger)
    let transport = PeerTransport(identity: identity, registry: registry, logger: logger)
    let listener = FederationListener(
      configuration: .init(host: settings.federation.host, port: port), endpoint: endpoint,
      identity: identity, registry: registry,
      services: FederationServices(
        intake: intake, dispenser: dispenser, directory: storage, peers: storage, signals: coordination,
        limiter: coordination
      ) { number async throws(Problem) in
        do throws(StoreError) {
          return try await accounts.account(number) != nil
        } catch {
          throw Problem(error)
        }
      },
      clock: .system, logger: logger
    ) { port in
      state.began()
      logger.notice(
        "serving peers", metadata: ["address": "\(settings.federation.host):\(port)", "url": "\(endpoint.text)"])
    }
    let sync = DirectorySync(
      registry: registry, transport: transport, directory: storage, interval: settings.federation.directoryInterval,
      logger: logger)
    courier = PeerCourier(registry: registry, transport: transport)
    services = [registry, identity, transport, sync, listener]
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
