import Hummingbird
import RelayCore
import RelayHTTP

/// Shows peers what our CA says of itself (docs/federation-wire.md, "Authority statements"). It asks for no scope:
/// whoever trusts us has to know.
struct AuthorityController: Sendable {
  private let identity: FederationIdentity

  init(identity: FederationIdentity) { self.identity = identity }

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/authority", [(.get, statement)])
  }

  private func statement(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    guard let statement = identity.statement else { throw Problem(.notFound) }
    return .json(statement)
  }
}
