package import RelayCore

/// The services to which the listener passes requests.
package struct FederationServices: Sendable {
  let intake: any Intake
  let dispenser: any PreKeyDispenser
  let directory: any DirectoryStore
  let peers: any PeerStore
  let signals: any SignalBus
  let limiter: any RateLimiter
  let locator: any AttachmentLocator
  let epochs: any EpochStore
  let handOvers: HandOverLedger
  let probes: (any ProbeHost)?
  let attachmentMark: AttachmentMark?
  let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool

  /// - Parameters:
  ///   - locator: says where attachments of our accounts are downloaded.
  ///   - epochs: remembers peers' epochs.
  ///   - handOvers: knows what was handed over to peers: receipts are taken for that alone.
  ///   - probes: the account that peers may test with; nil serves no such tests.
  ///   - attachmentMark: what ids of our attachments begin with, as peers are told.
  ///   - isLocalAccount: whether a number is registered here; no peer may speak for it then. Asked for every message:
  ///     it answers from memory as a rule.
  package init(
    intake: any Intake, dispenser: any PreKeyDispenser, directory: any DirectoryStore, peers: any PeerStore,
    signals: any SignalBus, limiter: any RateLimiter, locator: any AttachmentLocator, epochs: any EpochStore,
    handOvers: HandOverLedger,
    probes: (any ProbeHost)? = nil, attachmentMark: AttachmentMark? = nil,
    isLocalAccount: @escaping @Sendable (AccountNumber) async throws(Problem) -> Bool
  ) {
    self.intake = intake
    self.dispenser = dispenser
    self.directory = directory
    self.peers = peers
    self.signals = signals
    self.limiter = limiter
    self.locator = locator
    self.epochs = epochs
    self.handOvers = handOvers
    self.probes = probes
    self.attachmentMark = attachmentMark
    self.isLocalAccount = isLocalAccount
  }
}
