import Hummingbird
import Logging
import RelayCore
import RelayHTTP

/// Lets peers test the way between us: it names our probe account, tells what of theirs has arrived there, and walks
/// the way back if they wish (docs/federation.md, "Testing a peering").
struct ProbeController: Sendable {
  static let path = "/v1/federation/probe"
  /// A walk on a peer's behalf ends by then, and one that does not reach the peer is answered then.
  static let runLimit = Duration.seconds(15)

  private let host: any ProbeHost
  private let budget: PeerBudget
  private let identity: FederationIdentity
  private let addresses: PeerAddresses
  private let clock: WallClock
  private let limits: PeerLimits
  /// Walks cost certificates, keys and messages; each is under way, and holds its turn, until its answer is given.
  private let turns = PeerTurns(perPeer: 1, all: 4, retryAfter: Self.runLimit)

  init(
    host: any ProbeHost, budget: PeerBudget, identity: FederationIdentity, addresses: PeerAddresses, clock: WallClock,
    limits: PeerLimits = PeerLimits()
  ) {
    self.host = host
    self.budget = budget
    self.identity = identity
    self.addresses = addresses
    self.clock = clock
    self.limits = limits
  }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/probe", [(.put, probe)])
  }

  /// Asks for no scope: what it gives away is ours alone. Messages and keys do, on their own paths.
  private func probe(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer
    let body = try await budget.body(of: request, max: WireLimits.smallRequestBytesMax, from: peer.name)
    let asked = try body.decodeJSON { json throws(JSONError) in try ProbeRequest.decode(json) }
    guard asked.runs else { return .json(try await answer(peer, runs: false, context.logger).json) }
    // A walk that cannot be made now costs the peer no probe.
    let walked = try await turns.take(of: peer.name) { () async throws(Problem) in
      try await answer(peer, runs: true, context.logger)
    }
    return .json(walked.json)
  }

  private func answer(_ peer: KnownPeer, runs: Bool, _ logger: Logger) async throws(Problem) -> ProbeAnswer {
    try await budget.charge([.probe], of: peer.name)
    let account = try await host.prepare()
    let received = try await host.collect(from: peer.name)
    guard runs else { return ProbeAnswer(account: account, received: received, steps: nil) }
    let probe = PeerProbe(credentials: identity.credentials, addresses: addresses, clock: clock, limits: limits)
    let walk = WalkBack(probe: probe, limit: Self.runLimit, logger: logger)
    return ProbeAnswer(account: account, received: received, steps: await walk.run(to: peer, from: account))
  }
}
