import Hummingbird
import RelayCore
import RelayHTTP
import Synchronization

/// Lets peers test the way between us: it names our probe account, tells what of theirs has arrived there, and walks the
/// way back if they wish (docs/federation.md, "Testing a peering").
struct ProbeController: Sendable {
  static let path = "/v1/federation/probe"
  /// A walk on a peer's behalf ends by then.
  static let runLimit = Duration.seconds(15)

  private let host: any ProbeHost
  private let limiter: any RateLimiter
  private let identity: FederationIdentity
  private let clock: WallClock
  private let limits: PeerLimits
  private let turn = Turn()

  init(
    host: any ProbeHost, limiter: any RateLimiter, identity: FederationIdentity, clock: WallClock,
    limits: PeerLimits = PeerLimits()
  ) {
    self.host = host
    self.limiter = limiter
    self.identity = identity
    self.clock = clock
    self.limits = limits
  }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/probe", [(.put, probe)])
  }

  /// Asks for no scope: what it gives away is ours alone. Messages and keys do, on their own paths.
  private func probe(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let body = try await request.jsonBody(max: WireLimits.smallRequestBytesMax)
    let asked = try body.decodeJSON { json throws(JSONError) in try ProbeRequest.decode(json) }
    let peer = context.peer
    do throws(Problem) {
      try await limiter.charge(.peerProbes, LimitKey(peer.name))
    } catch {
      throw Problem(.budgetExceeded, retryAfter: error.retryAfter)
    }
    let account = try await host.prepare()
    let received = try await host.collect(from: peer.name)
    let steps: [ProbeResult]? = if asked.runs { try await walkBack(to: peer, from: account) } else { nil }
    return .json(ProbeAnswer(account: account, received: received, steps: steps).json)
  }

  /// Never asks the peer to walk in its turn, so that two relays do not go on forever.
  private func walkBack(to peer: KnownPeer, from account: AccountNumber) async throws(Problem) -> [ProbeResult] {
    guard turn.take() else { throw Problem(.unavailable, retryAfter: Self.runLimit) }
    defer { turn.giveBack() }
    var results: [ProbeResult] = []
    let probe = PeerProbe(credentials: identity.credentials, clock: clock, limits: limits)
    for await result in probe.walk(peer, .init(source: account), within: Self.runLimit) { results.append(result) }
    return results
  }

  /// One walk at a time in this process: it costs certificates, keys and messages.
  private final class Turn: Sendable {
    private let isTaken = Mutex(false)
    func take() -> Bool {
      isTaken.withLock { taken in
        defer { taken = true }
        return !taken
      }
    }
    func giveBack() { isTaken.withLock { $0 = false } }
  }
}
