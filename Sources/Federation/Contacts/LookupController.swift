import Hummingbird
import NIOCore
import RelayCore
import RelayHTTP

/// Which contacts of a peer's clients are ours, for a peer that asks instead of copying our listing
/// (docs/federation.md, "Asking instead of copying").
struct LookupController: Sendable {
  let directory: any DirectoryStore
  let budget: PeerBudget

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/tokens", [(.put, lookUp)])
  }

  /// Entries of active accounts, without `relay`, in no order: what a peer knows of its contacts it learnt from us
  /// alone.
  private func lookUp(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let peer = context.peer.name
    let (tokens, charges) = try await budget.jsonBody(
      of: request, max: WireLimits.directoryRequestBytesMax, from: peer, decode)
    try await budget.charge(charges + [BudgetCharge(amount: tokens.count, budget: .peerTokens)], of: peer)
    let known = try await storing { () throws(StoreError) in try await directory.localEntries(for: tokens) }
    return .json(ContactCodec.encode(known))
  }

  private func decode(_ body: ByteBuffer) throws(Problem) -> [ContactToken] {
    do throws(ContactQuery.Refusal) {
      return try ContactQuery.decode(body.readableBytesUInt8Span.bytes, tokensMax: WireLimits.contactsPerPage).tokens
    } catch {
      switch error {
      case .undecodable: throw Problem(.undecodableToken)
      case .tooMany: throw Problem(.bodyTooLarge)
      case .json(let error): throw Problem(error)
      }
    }
  }
}
