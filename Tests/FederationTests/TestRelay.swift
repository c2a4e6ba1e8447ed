// One operator's federation side on loopback: real TLS, embedded stores, everything that `relay serve` joins to it.

import Federation
import Foundation
import Logging
import RelayCore
import Storage
import TestSupport

struct TestRelay: Sendable {
  let name: RelayName
  let endpoint: PeerEndpoint
  let folder: IdentityFolder
  let storage: SQLiteStorage
  let coordination: LocalCoordination
  let identity: FederationIdentity
  let registry: PeerRegistry
  let addresses: PeerAddresses
  let transport: PeerTransport
  let handOvers: HandOverSender
  let ledger: HandOverLedger
  let intake: RecordingIntake
  let dispenser: FixedDispenser
  let locator: FixedLocator
  let log: LogRecorder
  let clock: WallClock
  /// Makes another listener of this relay, for the given port.
  let makeListener: @Sendable (Int, @escaping @Sendable (Int) -> Void) -> FederationListener

  static let systemClock = WallClock { Timestamp(millis: Int64(Date().timeIntervalSince1970 * 1000)) }

  var courier: PeerCourier {
    PeerCourier(registry: registry, handOvers: handOvers)
  }

  func witness(timeout: Duration = .seconds(60)) -> PeerEpochWitness {
    PeerEpochWitness(registry: registry, transport: transport, timeout: timeout)
  }

  /// The service that the commands would work with, in a process of their own.
  func peering(at endpoint: PeerEndpoint? = nil, clock: WallClock? = nil) -> PeeringService {
    PeeringService(
      endpoint: endpoint ?? self.endpoint, credentials: identity.credentials, addresses: addresses, store: storage,
      signals: coordination, clock: clock ?? self.clock, limits: .patient)
  }

  func peerNames() async throws -> [String] { try await storage.peers().map { "\($0.name) \($0.state)" } }
}

extension PeeringService {
  /// Does the work of `relay peer accept`.
  func accept(_ text: String, scopes: Set<Peer.Scope>? = nil) async throws(FederationError) -> PeerDescription {
    try await accept(offer(text, scopes: scopes)).peer
  }
}

extension PeerLimits {
  /// For tests that are not about time, on a machine that is busy with other tests.
  static var patient: PeerLimits {
    var limits = PeerLimits()
    limits.connectTimeout = .seconds(30)
    limits.requestTimeout = .seconds(30)
    limits.patience = .seconds(25)
    limits.probeTimeout = .seconds(30)
    limits.probeInterval = .milliseconds(200)
    return limits
  }
}

/// An account that is registered at every test relay.
let localAccount = AccountNumber(e164: "+14155550111")

/// Runs a relay called `name` for the time of `body`.
/// - Parameter checksReceipts: whether it takes receipts for what it has handed over alone, as `relay serve` does.
func withRelay<Value: Sendable>(
  _ name: String, clock: WallClock = TestRelay.systemClock, limits: PeerLimits = .patient,
  listing: (any DirectoryStore)? = nil, epochs: (any EpochStore)? = nil,
  probes: (any ProbeHost)? = nil, checksReceipts: Bool = false, addresses wanted: PeerAddresses? = nil,
  buckets: [LimiterName: Bucket] = [.messages: Bucket(size: 100_000, perMinute: 100_000)],
  laneTimeMax: Duration = .seconds(300), listingRecheck: Duration = .seconds(2),
  _ body: @Sendable (TestRelay) async throws -> Value
) async throws -> Value {
  try await withTemporaryFolder { path in
    guard let name = RelayName(name), let placeholder = PeerEndpoint("https://127.0.0.1:1") else {
      throw TestFailure("no relay name")
    }
    let log = LogRecorder()
    let folder = IdentityFolder(path: path + "/federation")
    try folder.createAuthority(for: name, now: clock.now())
    try folder.issueLeaf(for: name, at: placeholder, now: clock.now())
    let storage = try SQLiteStorage(path: path + "/relay.sqlite", clock: clock)
    try await storage.migrate { _ in }
    let coordination = LocalCoordination(buckets: buckets, clock: clock)
    let identity = try FederationIdentity(
      folder: folder, name: name, interval: .milliseconds(50), logger: log.logger)
    let registry = PeerRegistry(store: storage, signals: coordination, logger: log.logger)
    let addresses = wanted ?? PeerAddresses(own: placeholder, allowsPrivate: false)
    let transport = PeerTransport(
      identity: identity, addresses: addresses, registry: registry, store: storage, signals: coordination,
      limits: limits, clock: clock, logger: log.logger)
    let intake = RecordingIntake()
    let (dispenser, locator) = (FixedDispenser(), FixedLocator())
    let ledger = HandOverLedger(
      store: checksReceipts ? storage : EverythingHandedOver(), key: SecretBytes([UInt8](repeating: 7, count: 32)),
      clock: clock)
    let services = FederationServices(
      intake: intake, dispenser: dispenser, directory: listing ?? storage, peers: storage,
      signals: coordination, limiter: coordination, locator: locator, epochs: epochs ?? storage,
      handOvers: ledger, probes: probes,
      isLocalAccount: { $0 == localAccount })
    let makeListener = { @Sendable (port: Int, onListening: @escaping @Sendable (Int) -> Void) in
      var configuration = FederationListenerConfiguration(host: "127.0.0.1", port: port)
      configuration.handshakeTimeout = .seconds(60)
      configuration.gracefulCloseTimeout = .seconds(60)
      configuration.laneTimeMax = laneTimeMax
      configuration.listingRecheck = listingRecheck
      return FederationListener(
        configuration: configuration, endpoint: placeholder,
        identity: identity, addresses: addresses, registry: registry, services: services, clock: clock,
        logger: log.logger,
        onListening: { onListening($0) })
    }
    let (ports, port) = AsyncStream.makeStream(of: Int.self)

    return try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        defer { port.finish() }
        try await makeListener(0) { port.yield($0) }.run()
      }
      group.addTask { try await registry.run() }
      group.addTask { try await identity.run() }
      group.addTask { try await transport.run() }
      guard let bound = await ports.first(where: { _ in true }),
        let endpoint = PeerEndpoint("https://127.0.0.1:\(bound)")
      else { throw TestFailure("the listener did not start: \(log.all)") }
      let relay = TestRelay(
        name: name, endpoint: endpoint, folder: folder, storage: storage, coordination: coordination,
        identity: identity, registry: registry, addresses: addresses, transport: transport,
        handOvers: HandOverSender(HandOverRequests(transport: transport, ledger: ledger), outbox: nil), ledger: ledger,
        intake: intake, dispenser: dispenser, locator: locator, log: log, clock: clock,
        makeListener: makeListener)
      let value = try await body(relay)
      group.cancelAll()
      transport.close()
      while let result = await group.nextResult() {
        if case .failure(let error) = result, !(error is CancellationError) { throw error }
      }
      await storage.close()
      return value
    }
  }
}

/// Runs two relays that have peered by invitation, `alpha` having invited `beta`.
///
/// - Parameters:
///   - limits: beta's towards alpha.
///   - listing: what alpha lists, in place of its accounts.
///   - listingRecheck: how late alpha sees a change of it whose signal was lost.
func withPeers(
  limits: PeerLimits = .patient, listing: (any DirectoryStore)? = nil, listingRecheck: Duration = .seconds(2),
  _ body: @Sendable (_ alpha: TestRelay, _ beta: TestRelay) async throws -> Void
) async throws {
  try await withRelay("alpha", listing: listing, listingRecheck: listingRecheck) { alpha in
    try await withRelay("beta", limits: limits) { beta in
      let invitation = try await alpha.peering().invite()
      _ = try await beta.peering().accept(invitation.text)
      try await body(alpha, beta)
    }
  }
}

/// Runs `body` with a folder that is gone afterwards.
func withTemporaryFolder<Value: Sendable>(_ body: (String) async throws -> Value) async throws -> Value {
  try await MachineRoom.withDesk { try await withFolder(body) }
}

private func withFolder<Value: Sendable>(_ body: (String) async throws -> Value) async throws -> Value {
  let path = NSTemporaryDirectory() + "relay-federation-" + UUID().uuidString
  try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(atPath: path) }  // A leftover in the temporary folder hurts nobody.
  return try await body(path)
}
