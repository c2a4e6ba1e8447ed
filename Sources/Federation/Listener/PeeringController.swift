import HTTPTypes
import Hummingbird
import RelayCore
import RelayHTTP

/// Becoming a peer, and asking what one is had as (docs/federation.md, "Peering").
struct PeeringController: Sendable {
  let redeemer: InvitationRedeemer

  func addRoutes(to router: some RouterMethods<FederationContext>) {
    router.resource("v1/federation/peering", [(.put, redeem), (.get, status)])
  }

  private func redeem(_ request: Request, _ context: FederationContext) async throws(Problem) -> Response {
    guard let connection = context.connection else { throw Problem(.peerRefused) }
    let body = try await request.jsonBody(max: WireLimits.smallRequestBytesMax)
    let redemption = try body.decodeJSON { json throws(JSONError) in try RedemptionRequest.decode(json) }
    return .json(try await redeemer.redeem(redemption, by: connection, logger: context.logger).json)
  }

  /// Asks for no scope: two operators who share nothing else still find out why.
  private func status(_ request: Request, _ context: FederationContext) async throws(Problem) -> Response {
    guard let peer = context.peer else { throw Problem(.peerRefused) }
    return .json(PeeringStatus.ours(to: peer, at: redeemer.clock.now()).json)
  }
}
