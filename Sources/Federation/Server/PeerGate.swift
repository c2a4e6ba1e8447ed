import HTTPTypes
import Hummingbird
import Logging
import RelayCore
import RelayHTTP

/// Says of every request which active peer it comes from, by what its connection proved and what the registry holds
/// now. Everything but the redeeming of an invitation is refused to anyone else.
struct PeerGate: RouterMiddleware {
  let registry: PeerRegistry
  let clock: WallClock

  func handle(
    _ request: Request, context: FederationContext, next: (Request, FederationContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    if let peer = try peer(proving: context.connection) {
      context.peer = peer
      context.logger[metadataKey: "peer"] = "\(peer.name)"
    } else if !Self.isRedemption(request) {
      throw Problem(.peerRefused)
    }
    return try await next(request, context)
  }

  /// The active peer that `connection` proves now; nil when it proves none.
  /// - Throws: `.peerRefused` when its certificate has ended, or there was no handshake.
  func peer(proving connection: ConnectionIdentity?) throws(Problem) -> KnownPeer? {
    guard let connection, clock.now() <= connection.validUntil else { throw Problem(.peerRefused) }
    return registry.current.peer(proving: connection)
  }

  private static func isRedemption(_ request: Request) -> Bool {
    request.method == .put && request.uri.path.split(separator: "/") == ["v1", "federation", "peering"]
  }
}

/// Lets a peer's request pass if its scopes cover it.
struct ScopeGate: RouterMiddleware {
  let scope: Peer.Scope
  let refusals: PeerCounters

  func handle(
    _ request: Request, context: PeerContext, next: (Request, PeerContext) async throws -> Response
  ) async throws -> Response {
    try demandScope(of: context.peer)
    return try await next(request, context)
  }

  /// - Throws: `.scopeRefused`, which is counted.
  func demandScope(of peer: KnownPeer) throws(Problem) {
    guard peer.peer.scopes.contains(scope) else {
      refusals.add(of: peer.name, Problem.Kind.scopeRefused.rawValue)
      throw Problem(.scopeRefused)
    }
  }
}

/// Charges a peer for a request and lets it pass then: for all that have no body, and no charges of their own. A body
/// that is declared all the same is charged, and not read.
struct BudgetGate: RouterMiddleware {
  let budget: PeerBudget

  func handle(
    _ request: Request, context: PeerContext, next: (Request, PeerContext) async throws -> Response
  ) async throws -> Response {
    try await budget.charge(
      [.request, .bytes(request.bytesDeclared(max: WireLimits.smallRequestBytesMax) ?? 0)], of: context.peer.name)
    return try await next(request, context)
  }
}

/// Lets a peer's request pass if one of several scopes covers it.
struct AnyScopeGate: RouterMiddleware {
  let scopes: Set<Peer.Scope>
  let refusals: PeerCounters

  func handle(
    _ request: Request, context: PeerContext, next: (Request, PeerContext) async throws -> Response
  ) async throws -> Response {
    guard !scopes.isDisjoint(with: context.peer.peer.scopes) else {
      refusals.add(of: context.peer.name, Problem.Kind.scopeRefused.rawValue)
      throw Problem(.scopeRefused)
    }
    return try await next(request, context)
  }
}
