import Hummingbird
import RelayCore
import RelayHTTP

/// The peers' API as one router: a table of contents of its controllers.
struct PeerEdge {
  let services: FederationServices
  let identity: FederationIdentity
  /// `federation.url`, as the answer to a redeemed invitation names it.
  let endpoint: PeerEndpoint
  let addresses: PeerAddresses
  let registry: PeerRegistry
  let listing: ListingWatch<ContinuousClock>
  let laneTimeMax: Duration
  let refusals: PeerCounters
  let clock: WallClock

  func router() -> Router<FederationContext> {
    let router = Router(context: FederationContext.self)
    router.add(
      middleware: ProblemMiddleware(edge: "federation", takesIDs: true, untimed: [ListingController.changesPath]))
    let gate = PeerGate(registry: registry, clock: clock)
    router.add(middleware: gate)
    let budget = PeerBudget(limiter: services.limiter, refusals: refusals)
    let peers = PeerRoutes(router: router, budget: budget, refusals: refusals)
    addPeering(to: router, budget)
    addMessages(to: peers)
    addContacts(to: peers, gate)
    addConditions(to: peers)
    return router
  }

  /// Invitations are redeemed by relays that are no peers yet.
  private func addPeering(to router: Router<FederationContext>, _ budget: PeerBudget) {
    let redeemer = InvitationRedeemer(
      name: identity.credentials.name, endpoint: endpoint, addresses: addresses, store: services.peers,
      signals: services.signals, registry: registry, clock: clock)
    PeeringController(redeemer: redeemer, budget: budget, attachmentMark: services.attachmentMark).addRoutes(to: router)
  }

  private func addMessages(to peers: PeerRoutes) {
    let budget = peers.budget
    let sources = SourceCheck(directory: services.directory, isLocalAccount: services.isLocalAccount)
    registry.onChange(ofConditions: false) { [weak sources] _ in sources?.peersChanged() }
    let intake = HandOverIntake(
      intake: services.intake, sources: sources, budget: budget, ledger: services.handOvers)
    PeerMessagesController(intake: intake).addRoutes(to: peers.chargingThemselves(.messages))
    BatchController(intake: intake, laneTimeMax: laneTimeMax).addRoutes(to: peers.chargingThemselves(.messages))
    PeerKeysController(dispenser: services.dispenser, budget: budget).addRoutes(to: peers.chargingThemselves(.keys))
    PeerAttachmentsController(locator: services.locator).addRoutes(to: peers.charged(.attachments))
  }

  private func addContacts(to peers: PeerRoutes, _ gate: PeerGate) {
    let scope = ScopeGate(scope: .directory, refusals: refusals)
    ListingController(directory: services.directory, watch: listing) { context throws(Problem) in
      guard let peer = try gate.peer(proving: context.connection) else { throw Problem(.peerRefused) }
      try scope.demandScope(of: peer)
    }
    .addRoutes(to: peers.charged(.directory))
    LookupController(directory: services.directory, budget: peers.budget)
      .addRoutes(
        to: peers.uncharged.add(middleware: AnyScopeGate(scopes: [.directory, .lookup], refusals: refusals)))
  }

  /// Routes of every peering: what relays tell each other of themselves.
  private func addConditions(to peers: PeerRoutes) {
    let budget = peers.budget
    EpochController(memory: EpochMemory(store: services.epochs), budget: budget).addRoutes(to: peers.uncharged)
    AuthorityController(identity: identity).addRoutes(to: peers.charged())
    if let probes = services.probes {
      ProbeController(host: probes, budget: budget, identity: identity, addresses: addresses, clock: clock)
        .addRoutes(to: peers.uncharged)
    }
    BudgetController(budget: budget).addRoutes(to: peers.uncharged)
  }
}

/// Groups of the listener's paths, by the gates before them. All are for active peers alone.
private struct PeerRoutes {
  let router: Router<FederationContext>
  let budget: PeerBudget
  let refusals: PeerCounters

  /// Charged as requests, and covered by `scope`, or by any peering: for paths that read no body.
  func charged(_ scope: Peer.Scope? = nil) -> RouterGroup<PeerContext> {
    let group = uncharged.add(middleware: BudgetGate(budget: budget))
    return scope.map { group.add(middleware: ScopeGate(scope: $0, refusals: refusals)) } ?? group
  }

  /// Covered by `scope`; the controllers charge their requests together with what they ask for.
  func chargingThemselves(_ scope: Peer.Scope) -> RouterGroup<PeerContext> {
    uncharged.add(middleware: ScopeGate(scope: scope, refusals: refusals))
  }

  var uncharged: RouterGroup<PeerContext> { router.group(context: PeerContext.self) }
}
