import Hummingbird
import RelayCore
import RelayHTTP

/// Lets peers test the way between us: it names our probe account, tells what of theirs has arrived there, and walks the
/// way back if they wish (docs/federation.md, "Testing a peering").
struct ProbeController: Sendable {
  static let path = "/v1/federation/probe"
  /// A walk on a peer's behalf ends by then.
  static let runLimit = Duration.seconds(15)

  private let host: any ProbeHost
  private let budget: PeerBudget
  private let identity: FederationIdentity
  private let clock: WallClock
  private let limits: PeerLimits
  /// Walks cost certificates, keys and messages.
  private let turns = PeerTurns(perPeer: 1, all: 4, retryAfter: Self.runLimit)

  init(
    host: any ProbeHost, budget: PeerBudget, identity: FederationIdentity, clock: WallClock,
    limits: PeerLimits = PeerLimits()
  ) {
    self.host = host
    self.budget = budget
    self.identity = identity
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
    guard asked.runs else { return .json(try await answer(peer, runs: false).json) }
    // A walk that cannot be made now costs the peer no probe.
    let walked = try await turns.take(of: peer.name) { () async throws(Problem) in
      try await answer(peer, runs: true)
    }
    return .json(walked.json)
  }

  private func answer(_ peer: KnownPeer, runs: Bool) async throws(Problem) -> ProbeAnswer {
    try await budget.charge([.probe], of: peer.name)
    let account = try await host.prepare()
    let received = try await host.collect(from: peer.name)
    let steps = runs ? await walkBack(to: peer, from: account) : nil
    return ProbeAnswer(account: account, received: received, steps: steps)
  }

  /// Never asks the peer to walk in its turn, so that two relays do not go on forever.
  private func walkBack(to peer: KnownPeer, from account: AccountNumber) async -> [ProbeResult] {
    var results: [ProbeResult] = []
    let probe = PeerProbe(credentials: identity.credentials, clock: clock, limits: limits)
    for await result in probe.walk(peer, .init(source: account), within: Self.runLimit) { results.append(result) }
    return results
  }
}
