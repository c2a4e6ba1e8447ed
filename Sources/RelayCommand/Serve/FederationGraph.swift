import Federation
import Logging
import Operations
import Relay
import RelayConfiguration
import RelayCore
import ServiceLifecycle

/// Federation's part of the graph, on what reaches peers and what this relay's own accounts stand on.
struct FederationGraph {
  let courier: any Courier
  let finder: PeerDirectory
  private let settings: RelayConfiguration
  private let peers: PeerGraph
  private let ledger: HandOverLedger
  private let outbox: Outbox
  private let logger: Logger

  init(
    _ settings: RelayConfiguration, _ peers: PeerGraph, _ local: LocalGraph, ledger: HandOverLedger,
    storage: any Storage, logger: Logger
  ) {
    self.settings = settings
    self.peers = peers
    self.ledger = ledger
    self.logger = logger
    let requests = HandOverRequests(transport: peers.transport, ledger: ledger)
    outbox = Outbox(
      store: storage, registry: peers.registry, requests: requests, intake: local.intake,
      bounds: settings.federation.outbox, handsOver: settings.roles.has(.peers),
      clock: JudgedClock(.system, by: storage.judge), logger: logger)
    courier = PeerCourier(registry: peers.registry, handOvers: HandOverSender(requests, outbox: outbox))
    finder = PeerDirectory(
      registry: peers.registry, transport: peers.transport, store: storage,
      claimsMax: settings.federation.contactsMax, clock: .system, logger: logger)
  }

  /// The finder of the relay for requests that name none.
  func homes(_ local: LocalGraph, directory: any HomeDirectory) -> any HomeFinder {
    guard settings.federation.routesImplicitly else { return NoPeers() }
    return ImplicitRoutes(
      registry: peers.registry, directory: directory, asked: finder, ownMark: settings.attachments.mark,
      isLocalAccount: isLocalAccount(local.accounts))
  }

  private func isLocalAccount(
    _ accounts: AccountCache
  ) -> @Sendable (AccountNumber) async throws(Problem) -> Bool {
    { number async throws(Problem) in
      do throws(StoreError) {
        return try await accounts.account(number) != nil
      } catch {
        throw Problem(error)
      }
    }
  }

  /// The services, in the order in which they start.
  func services(storage: any Storage, coordination: any Coordination) -> [any Service] {
    coordination.listen { [finder] in finder.heard($0) }
    let certificates = FederationCertificates(identity: peers.identity, registry: peers.registry)
    let watch = CertificateWatch(clock: .system, logger: logger) { certificates.all }
    return [peers.registry, peers.identity, watch, peers.transport]
      + (settings.roles.servesAccounts ? [outbox] : [])
      + (settings.roles.has(.peers) ? backgroundWork(storage: storage, coordination: coordination) : [])
  }

  /// The work for peers that no request waits for.
  private func backgroundWork(storage: any Storage, coordination: any Coordination) -> [any Service] {
    let (registry, transport) = (peers.registry, peers.transport)
    let sync = DirectorySync(
      registry: registry, transport: transport, directory: storage, signals: coordination, clock: .system,
      interval: settings.federation.directoryInterval, contactsMax: settings.federation.contactsMax, logger: logger)
    let ownership = OwnershipKeeper(
      store: storage, days: settings.federation.ownership, interval: settings.federation.directoryInterval * 5,
      logger: logger)
    let trust = TrustSync(
      registry: registry, transport: transport, store: storage, signals: coordination, logger: logger)
    let suspensions = SuspensionEnds(
      store: storage, registry: registry, signals: coordination,
      clock: JudgedClock(.system, by: storage.judge).believing, logger: logger)
    return [trust, suspensions, sync, ownership]
  }

  func listener(
    _ local: LocalGraph, locator: any AttachmentLocator, storage: any Storage, coordination: any Coordination,
    readiness: Readiness
  ) -> FederationListener {
    let state = ListenerState("federation", in: readiness)
    let accounts = local.accounts
    let probes = ProbeAccount(name: settings.name, store: storage, accounts: accounts, clock: .system)
    var configuration = FederationListenerConfiguration(host: settings.federation.host, port: peers.port)
    configuration.balancers = settings.client.trustedProxies
    return FederationListener(
      configuration: configuration, endpoint: peers.endpoint,
      identity: peers.identity, addresses: peers.addresses, registry: peers.registry,
      services: FederationServices(
        intake: local.intake, dispenser: local.dispenser, directory: storage, peers: storage, signals: coordination,
        limiter: coordination, locator: locator, epochs: storage,
        handOvers: ledger, probes: probes, attachmentMark: settings.attachments.mark,
        isLocalAccount: isLocalAccount(accounts)
      ),
      clock: .system, logger: logger
    ) { [settings, peers, logger] port in
      state.began()
      logger.notice(
        "serving peers", metadata: ["address": "\(settings.federation.host):\(port)", "url": "\(peers.endpoint.text)"])
    }
  }
}
