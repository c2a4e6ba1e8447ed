import Federation
import Logging
import RelayConfiguration
import RelayCore
import ServiceLifecycle

/// The parts that reach peers: our credentials, the registry of peers, and the connections. There is none without
/// `federation.port`, nor in a process whose roles ask peers for nothing.
struct PeerGraph {
  let port: Int
  let endpoint: PeerEndpoint
  let identity: FederationIdentity
  let addresses: PeerAddresses
  let registry: PeerRegistry
  let transport: PeerTransport
  let witness: any EpochWitness
  /// For as long as a request may wait.
  let quickWitness: any EpochWitness

  /// - Returns: nil when federation is off, or left to other processes.
  init?(_ settings: RelayConfiguration, storage: any Storage, coordination: any Coordination, logger: Logger) throws {
    guard settings.asksPeers, let port = settings.federation.port else { return nil }
    self.port = port
    endpoint = try settings.federation.endpoint("peers must know where to reach this relay")
    identity = try FederationIdentity(
      folder: IdentityFolder(path: settings.federation.directory), name: settings.name, logger: logger)
    addresses = settings.federation.peerAddresses
    registry = PeerRegistry(store: storage, signals: coordination, logger: logger)
    transport = PeerTransport(
      identity: identity, addresses: addresses, registry: registry, store: storage, signals: coordination,
      attachmentMark: settings.attachments.mark, clock: .system, logger: logger)
    witness = PeerEpochWitness(registry: registry, transport: transport)
    quickWitness = PeerEpochWitness(registry: registry, transport: transport, timeout: .milliseconds(300))
  }
}

extension RelayConfiguration.Federation {
  /// The addresses that URLs of peers may lead to.
  var peerAddresses: PeerAddresses {
    PeerAddresses(own: url.flatMap { PeerEndpoint($0.text) }, allowsPrivate: allowsPrivate)
  }

  /// `federation.url`. - Throws: `CommandFailure` that says why it is needed.
  func endpoint(_ need: String) throws -> PeerEndpoint {
    guard let url, let endpoint = PeerEndpoint(url.text) else {
      throw CommandFailure("federation.url is not set: \(need). Set it, for example to https://relay.example:9443.")
    }
    return endpoint
  }
}
