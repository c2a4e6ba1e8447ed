import AsyncHTTPClient
import Directory
import Federation
import Logging
import Metrics
import Operations
import Push
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP
import RelayMetrics
import ServiceLifecycle

// The graph of a process that serves, in two storeys: the parts that several features share, and the edges on top.

/// The configuration, the stores and the log, as every part of the graph gets them.
struct ServingContext {
  let settings: RelayConfiguration
  let storage: any Storage
  let coordination: any Coordination
  let readiness: Readiness
  let logger: Logger
}

/// The parts of a process below its edges.
struct SharedGraphs {
  let local: LocalGraph
  let attachments: AttachmentGraph
  /// nil without the role `directory`.
  let directory: DirectoryGraph?
  /// nil unless other processes hold the directory in parts.
  let parts: PartsGraph?
  /// nil when federation is off, or left to other processes.
  let federation: FederationGraph?
  let waking: WakingGraph
  /// Apple's keys, shared by all that pushes.
  let pushTokens = APNsTokens()

  /// - Parameter present: the configuration as it was read last.
  init(
    _ context: ServingContext, outbound: HTTPClient, present: LiveSetting<LoadedConfiguration>
  ) async throws {
    let (settings, storage, coordination) = (context.settings, context.storage, context.coordination)
    let logger = context.logger
    let peers = try PeerGraph(settings, storage: storage, coordination: coordination, logger: logger)
    waking = try WakingGraph(
      settings.push, roles: settings.roles, tokens: pushTokens, storage: storage, signals: coordination,
      logger: logger)
    let local = LocalGraph(
      settings, storage: storage, coordination: coordination, peers: peers?.witness, quickPeers: peers?.quickWitness,
      notifier: waking.requests, logger: logger)
    self.local = local
    let ledger = try await HandOverLedger.open(storage, clock: .system)
    federation = peers.map {
      FederationGraph(settings, $0, local, ledger: ledger, storage: storage, logger: logger)
    }
    attachments = try await AttachmentGraph(
      settings.attachments, at: settings.client.url, present: { present.value.configuration.attachments },
      storage: storage, client: outbound, logger: logger)
    directory =
      settings.roles.has(.directory)
      ? try DirectoryGraph(
        settings.directory, storage: storage, coordination: coordination, readiness: context.readiness, logger: logger)
      : nil
    parts =
      if settings.asksParts, let locations = settings.directory.parts {
        try await PartsGraph(locations, settings.directory, storage: storage, logger: logger)
      } else { nil }
  }

  /// In the order in which they start.
  func services(_ context: ServingContext) -> [any Service] {
    (directory?.services ?? []) + (parts?.services ?? [])
      + waking.services(local, storage: context.storage, coordination: context.coordination)
      // Receipts for what sessions acknowledge at the end still go to peers.
      + (federation?.services(storage: context.storage, coordination: context.coordination) ?? [])
  }
}

/// The edges of a process: the listeners for clients, peers, homeservers and senders of notifications.
struct EdgeGraphs {
  let drain = DrainState()
  /// nil without the role `clients`.
  private let clients: ClientGraph?
  /// nil where this process serves neither clients nor look-ups.
  private let clientListener: ClientListener?
  /// nil unless this process holds a part of the directory for others.
  private let part: PartListenerGraph?
  private let gateway: PushGatewayGraph?
  private let notifications: NotificationGraph?

  init(
    _ context: ServingContext, _ shared: SharedGraphs, sender: any Relay.VerificationSender
  ) async throws {
    let (settings, storage, coordination) = (context.settings, context.storage, context.coordination)
    let (readiness, logger) = (context.readiness, context.logger)
    let load = RequestLoad(logger: logger)
    let finder: (any ContactFinder)? = (shared.federation?.finder).map { UnburdeningFinder(finder: $0, load: load) }
    clients =
      settings.roles.has(.clients)
      ? Self.clients(context, shared, finder: finder, sender: sender, load: load) : nil
    let lookUps =
      clients == nil && settings.listensToClients
      ? shared.directory.map {
        LookUpGraph(
          settings, shared.local, storage: storage, coordination: coordination, finder: finder, lookUps: $0.lookUps)
      } : nil
    gateway = try PushGatewayGraph(
      settings, tokens: shared.pushTokens, board: coordination.pushBoard, readiness: readiness, logger: logger)
    if settings.roles.servesAccounts { await shared.local.restores.check() }
    notifications = try NotificationGraph(
      settings, storage: storage, coordination: coordination, tokens: shared.pushTokens, drain: drain,
      readiness: readiness, logger: logger)
    clientListener = try (clients?.router ?? lookUps?.router).map { [clients, drain] router in
      try ClientListener(
        settings.client, router: router, authorizer: clients?.authorizer, drain: drain, load: load,
        state: ListenerState("client", in: readiness), logger: logger)
    }
    part =
      if settings.directory.partition != nil, let port = settings.directory.port, let directory = shared.directory {
        try await PartListenerGraph(
          settings.directory, at: port, view: directory.view, storage: storage, drain: drain,
          state: ListenerState("directory-part", in: readiness), logger: logger)
      } else { nil }
  }

  private static func clients(
    _ context: ServingContext, _ shared: SharedGraphs, finder: (any ContactFinder)?,
    sender: any Relay.VerificationSender, load: RequestLoad
  ) -> ClientGraph {
    // A part does not know most numbers' homes.
    let homes: any HomeDirectory =
      shared.directory.flatMap { $0.view.part.isWhole ? $0.view : nil } ?? StoredHomes(store: context.storage)
    return ClientGraph(
      context.settings, shared.local, storage: context.storage, coordination: context.coordination,
      courier: shared.federation?.courier ?? NoPeers(),
      homes: shared.federation.map { UnburdeningHomes(homes: $0.homes(shared.local, directory: homes), load: load) }
        ?? NoPeers(),
      finder: finder,
      directory: shared.directory?.follower, lookUps: shared.directory?.lookUps ?? shared.parts?.lookUps,
      attachments: shared.attachments, sender: sender,
      webPush: WakingGraph.webPushTerms(context.settings.push, by: shared.waking), load: load, logger: context.logger)
  }

  /// In the order in which they start.
  func services(_ context: ServingContext, _ shared: SharedGraphs) -> [any Service] {
    let roles = context.settings.roles
    let peers = (roles.has(.peers) ? shared.federation : nil).map {
      $0.listener(
        shared.local, locator: shared.attachments.locator, storage: context.storage,
        coordination: context.coordination, readiness: context.readiness) as any Service
    }
    // The hub tells the devices of other processes too, of what peers bring here.
    return (part?.services ?? []) + (clients?.services ?? [shared.local.hub])
      // Behind the last draw, of whichever listener, an epoch is written.
      + (roles.servesAccounts ? [shared.local.restores] : [])
      + (peers.map { [$0] } ?? []) + (gateway?.services ?? []) + (notifications?.services ?? [])
      + (clientListener.map(\.services) ?? [])
  }
}

/// Shows which roles this process has. All roles are shown, so that an alert sees a role that no process has.
enum RoleMetrics {
  static func show(_ roles: Roles) {
    for role in Role.allCases { RelayMetric.roles.held.gauge(role.label).record(roles.has(role) ? 1 : 0) }
  }
}

extension Role {
  fileprivate var label: RoleLabel {
    switch self {
    case .clients: .clients
    case .peers: .peers
    case .push: .push
    case .directory: .directory
    }
  }
}
