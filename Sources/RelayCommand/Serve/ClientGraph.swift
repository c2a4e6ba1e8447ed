import Attachments
import Directory
import Hummingbird
import Logging
import Relay
import RelayConfiguration
import RelayCore
import RelayHTTP
import ServiceLifecycle

/// The parts that the client edge and the peers' edge share: the accounts, messages and keys of this relay.
struct LocalGraph {
  let accounts: AccountCache
  let lastSeen: LastSeen
  let hub: Hub
  let intake: LocalIntake
  let restores: RestoreGuard
  let dispenser: LocalPreKeys
  let senders = TopSenders()

  /// - Parameters:
  ///   - peers: who remembers this store's epoch beside Redis, and those who do so quickly; nil without federation.
  ///   - notifier: who wakes devices by push; nil for nobody.
  init(
    _ settings: RelayConfiguration, storage: any Storage, coordination: any Coordination,
    peers: (any EpochWitness)?, quickPeers: (any EpochWitness)?, notifier: (any Notifier)?, logger: Logger
  ) {
    accounts = AccountCache(store: storage, bus: coordination)
    lastSeen = LastSeen(store: storage, accounts: accounts, clock: .system, logger: logger)
    // Behind the cache: what a signal makes it forget is read anew for the sessions.
    hub = Hub(
      presence: coordination.servedPresence, signals: coordination, missed: storage, accounts: accounts,
      lastSeen: lastSeen,
      pollInterval: settings.messages.pollInterval, steadyPollInterval: settings.messages.steadyPollInterval,
      notifier: notifier, logger: logger)
    let quota = MailboxQuota(store: storage, bounds: settings.messages.bounds)
    let clock = JudgedClock(.system, by: storage.judge)
    intake = LocalIntake(store: storage.servedMessages, accounts: accounts, quota: quota, watch: hub, clock: clock)
    restores = RestoreGuard(
      store: storage, redis: coordination.epochWitness, peers: peers, quickPeers: quickPeers, clock: .system,
      logger: logger)
    dispenser = LocalPreKeys(
      store: storage.servedPreKeys, accounts: accounts, restores: restores, clock: clock.believing)
  }
}

extension RelayConfiguration.Messages {
  /// A peer may fill half of a mailbox: less delays what a whole operator sends, more leaves too little to the others
  /// (docs/federation.md, "A peer's share of a mailbox").
  var bounds: MailboxBounds {
    MailboxBounds(mailboxMax: mailboxMax, senderMax: mailboxSenderMax, peerPercent: 50)
  }
}

/// Terms that users know from the clients, and that security.md counts with: no operator has a reason to differ.
private enum AccountTerms {
  /// A text message arrives within it, and a person types within it.
  static let codeLifetime = Duration.seconds(15 * 60)
  /// Wrong tries after which a code is void.
  static let triesMax = 5
  /// After an account was last seen, so that a number that passes to somebody else gets free (reference Part 6, 4).
  static let lockLifetime = Duration.seconds(7 * 86_400)
  /// The number that clients read with 411. They make that many sessions for each account (the reference has 3 too).
  static let devicesMax = 3
}

/// The client edge's part of the graph: all of the client API, but for look-ups where other processes serve them.
struct ClientGraph {
  let router: Router<ClientContext>
  let authorizer: LiveSocketAuthorizer
  /// In the order in which they start.
  let services: [any Service]

  /// - Parameters:
  ///   - directory: of this process; nil where others hold it.
  ///   - lookUps: nil where look-ups are left to other processes.
  ///   - load: of the clients' listener.
  init(
    _ settings: RelayConfiguration, _ local: LocalGraph, storage: any Storage, coordination: any Coordination,
    courier: any Courier, homes: any HomeFinder, finder: (any ContactFinder)?, directory: (any DirectoryMirror)?,
    lookUps: ContactLookUps?, attachments: AttachmentGraph, sender: any Relay.VerificationSender,
    webPush: PushController.WebPushTerms, load: RequestLoad, logger: Logger
  ) {
    let forwarder = ReceiptForwarder(courier: courier, logger: logger)
    let courier = UnburdeningCourier(courier: courier, load: load)
    let receipts = DeliveryReceipts(
      store: storage.servedMessages, intake: local.intake, forwarder: forwarder, logger: logger)
    let purse = { ContactPurse(budget: coordination, allowance: settings.directory.allowance) }
    let gate = CorrespondenceGate(purse: purse())
    let keys = KeysController(
      store: storage, accounts: local.accounts, local: local.dispenser, courier: courier, homes: homes,
      limiter: coordination.servedLimiter, gate: gate, verifiesSignatures: settings.keys.verifiesSignatures)
    let messages = MessagesController(
      store: storage, intake: local.intake, courier: courier, homes: homes, limiter: coordination, gate: gate,
      deliveryReceipts: receipts, lastSeen: local.lastSeen, senders: local.senders)
    let contacts = lookUps?.controller(
      storage: storage, coordination: coordination, purse: purse(), finder: finder)
    let blobs = attachments.controller(storage: storage, courier: courier, homes: homes, limiter: coordination)
    let accounts = AccountControllers(
      settings: settings, local: local, storage: storage,
      limits: CodeLimits(
        limiter: coordination, wrongCodes: WrongCodes(logger: logger),
        isDevelopment: settings.development.isEnabled),
      directory: directory)
    let edge = ClientEdge(
      accounts: local.accounts, forwarded: settings.client.forwarded, origins: settings.client.origins,
      controllers: .init(
        account: accounts.account(removing: attachments.removal),
        registration: accounts.registration(by: UnburdeningSender(sender: sender, load: load)),
        push: accounts.push(webPush, limiter: coordination), lock: accounts.lock, devices: accounts.devices,
        provisioning: ProvisioningController(hub: local.hub, limiter: coordination), keys: keys, messages: messages),
      elsewhere: contacts == nil ? .lookUps : nil
    ) { router in
      attachments.addOpenRoutes(to: router)
    } deviceRoutes: { router in
      contacts?.addRoutes(to: router)
      blobs.addRoutes(to: router)
    }
    router = edge.router()
    let live = LiveGraph(
      settings.client, local, storage: storage, receipts: receipts, router: router, load: load, logger: logger)
    authorizer = live.authorizer
    services = [forwarder, attachments.sweeper] + live.services
  }
}

/// The controllers of accounts and their devices.
private struct AccountControllers {
  let settings: RelayConfiguration
  let local: LocalGraph
  let storage: any Storage
  let limits: CodeLimits
  /// The directory of this process; nil where others hold it.
  let directory: (any DirectoryMirror)?

  func account(removing attachments: any AttachmentRemoval) -> AccountController {
    AccountController(
      remover: AccountRemover(store: storage, attachments: attachments), accounts: local.accounts,
      directory: directory)
  }

  func registration(by sender: any Relay.VerificationSender) -> RegistrationController {
    let registrar = Registrar(
      store: storage, accounts: local.accounts, limits: limits, locks: RegistrationLocks(),
      lockLifetime: AccountTerms.lockLifetime, respectsClaims: settings.federation.respectsClaims,
      clock: JudgedClock(.system, by: storage.judge), directory: directory)
    return RegistrationController(
      store: storage, registrar: registrar, limits: limits, sender: sender,
      tokens: settings.verification.tokenKey.map { NumberTokens(key: $0, clock: .system) },
      policy: .init(
        codeLifetime: AccountTerms.codeLifetime, triesMax: AccountTerms.triesMax,
        isDevelopment: settings.development.isEnabled),
      clock: .system)
  }

  func push(_ webPush: PushController.WebPushTerms, limiter: any RateLimiter) -> PushController {
    PushController(
      store: storage, accounts: local.accounts, directory: directory, limiter: limiter, webPush: webPush,
      clock: .system)
  }

  var lock: LockController {
    LockController(
      store: storage, accounts: local.accounts, limits: limits, locks: RegistrationLocks(), clock: .system)
  }

  var devices: DevicesController {
    DevicesController(
      store: storage, accounts: local.accounts, limits: limits,
      policy: .init(
        devicesMax: AccountTerms.devicesMax, codeLifetime: AccountTerms.codeLifetime,
        triesMax: AccountTerms.triesMax),
      clock: .system)
  }
}
