import HTTPTypes
import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Becoming a peer, and asking what one is had as (docs/federation.md, "Peering").
struct PeeringController: Sendable {
  let redeemer: InvitationRedeemer
  let budget: PeerBudget
  /// The mark of this relay's own attachments.
  let attachmentMark: AttachmentMark?

  func addRoutes(to router: some RouterMethods<FederationContext>) {
    router.resource("v1/federation/peering", [(.put, redeem), (.get, status)])
  }

  private func redeem(_ request: Request, _ context: FederationContext) async throws(Problem) -> Response {
    guard let connection = context.connection else { throw Problem(.peerRefused) }
    let body = try await body(of: request, context, connection)
    let redemption = try body.decodeJSON { json throws(JSONError) in try RedemptionRequest.decode(json) }
    return .json(try await redeemer.redeem(redemption, by: connection, logger: context.logger).json)
  }

  /// Charged to the peer, or, of who is none yet, by its CA's key: whoever finds an open invitation has as many of
  /// those as it likes, but all strangers together have few connections.
  private func body(
    of request: Request, _ context: FederationContext, _ connection: ConnectionIdentity
  ) async throws(Problem) -> ByteBuffer {
    if let peer = context.peer {
      return try await budget.body(of: request, max: WireLimits.smallRequestBytesMax, from: peer.name)
    }
    try await budget.chargeStranger(connection.fingerprint)
    return try await request.jsonBody(max: WireLimits.smallRequestBytesMax)
  }

  /// Asks for no scope: two operators who share nothing else still find out why.
  private func status(_ request: Request, _ context: FederationContext) async throws(Problem) -> Response {
    guard let peer = context.peer else { throw Problem(.peerRefused) }
    try await budget.charge([.request], of: peer.name)
    return .json(PeeringStatus.ours(to: peer, at: redeemer.clock.now(), attachmentMark: attachmentMark).json)
  }
}
