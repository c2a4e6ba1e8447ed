import NIOCore
import RelayCore

/// Asks a peer what only it knows of us, for `relay peer budget`.
package struct PeerInquiry: Sendable {
  private let question: PeerQuestion

  package init(
    credentials: FederationCredentials, addresses: PeerAddresses, limits: PeerLimits = PeerLimits()
  ) {
    question = PeerQuestion(credentials: credentials, addresses: addresses, limits: limits)
  }

  /// Asks `peer` for the budgets that this relay has left there.
  /// - Throws: `.unreachable`, `.refused`, `.unexpectedAnswer`. The last also if the peer is an older relay.
  package func budgets(of peer: KnownPeer) async throws(FederationError) -> [RemainingBudget] {
    let answer = try await ask(.get(ProbeWalk.budgetPath), peer)
    switch (answer.problemKind, answer.status) {
    case (.peerRefused?, _):
      throw FederationError(
        .refused, "\(peer.name) does not have this relay as an active peer.", remedy: "Ask its operator to resume it.")
    case (_, 404):
      throw FederationError(
        .unexpectedAnswer, "\(peer.name) does not tell budgets.", remedy: "It is a relay of before: it has to update.")
    case (_, 200):
      do throws(JSONError) {
        return try RemainingBudget.decode(answer.body.readableBytesUInt8Span.bytes)
      } catch {
        throw Self.unexpected(answer, of: peer)
      }
    default: throw Self.unexpected(answer, of: peer)
    }
  }

  private func ask(_ request: PeerRequest, _ peer: KnownPeer) async throws(FederationError) -> PeerAnswer {
    do {
      return try await question.ask(request, peer)
    } catch {
      throw FederationError(
        .unreachable, "\(peer.name) at \(peer.endpoint) did not answer: \(PeerFailure(error)).",
        remedy: "`relay peer test \(peer.name)` says where the way ends.")
    }
  }

  private static func unexpected(_ answer: PeerAnswer, of peer: KnownPeer) -> FederationError {
    FederationError(
      .unexpectedAnswer, "\(peer.name) answered \(answer.status) with something else than its budgets.",
      remedy: "`relay peer test \(peer.name)` says more.")
  }
}
