import Hummingbird
import RelayCore

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
