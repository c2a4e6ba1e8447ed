import Federation
import Logging
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
    _ settings: RelayConfiguration, storage: any Storage, signals: any SignalBus, accounts: AccountCache,
    intake: any Intake, dispenser: any PreKeyDispenser, logger: Logger
  ) throws {
    guard let port = settings.federation.port, let url = settings.federation.url else { return nil }
    let identity = try FederationIdentity(
      folder: IdentityFolder(path: settings.federation.directory), name: settings.name, logger: logger)
    let registry = PeerRegistry(store: storage, signals: signals, logger: logger)
    let transport = PeerTransport(identity: identity, registry: registry, clock: .system, logger: logger)
    let listener = FederationListener(
      configuration: .init(host: settings.federation.host, port: port), endpoint: try PeerEndpoint(url: url.text),
      identity: identity, registry: registry,
      services: FederationServices(
        intake: intake, dispenser: dispenser, directory: storage, peers: storage, signals: signals
      ) { number async throws(Problem) in
        do throws(StoreError) {
          return try await accounts.account(number) != nil
        } catch {
          throw Problem(error)
        }
      },
      clock: .system, logger: logger
    ) { port in
      logger.notice("serving peers", metadata: ["address": "\(settings.federation.host):\(port)", "url": "\(url)"])
    }
    let sync = DirectorySync(
      store: storage, registry: registry, transport: transport, interval: settings.federation.directoryInterval,
      logger: logger)
    courier = PeerCourier(registry: registry, transport: transport)
    services = [registry, identity, transport, sync, listener]
  }
}
