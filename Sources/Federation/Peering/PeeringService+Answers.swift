import NIOCore
import RelayCore

// The answers of the inviting relay, explained to the operator.
extension PeeringService {
  /// - Returns: an answer with status 200.
  func ask(
    _ request: PeerRequest, at endpoint: PeerEndpoint, through client: PeerClient
  ) async throws(FederationError) -> PeerAnswer {
    let answer: PeerAnswer
    do {
      answer = try await client.send(request)
    } catch {
      throw Self.explain(error, at: endpoint)
    }
    guard answer.status == 200 else { throw refusal(answer, from: endpoint) }
    return answer
  }

  static func explain(_ failure: PeerFailure, at endpoint: PeerEndpoint) -> FederationError {
    switch failure {
    case .handshake:
      FederationError(
        .refused, "\(endpoint) ended the TLS connection: \(failure).",
        remedy: "It refused our certificate: the invitation may be used or expired, or a clock is wrong. Its log says"
          + " why; ask for a new invitation.")
    default:
      FederationError(
        .unreachable, "\(endpoint) did not answer: \(failure).",
        remedy: "Try again; the invitation stays valid until it is redeemed or expires.")
    }
  }

  private func refusal(_ answer: PeerAnswer, from endpoint: PeerEndpoint) -> FederationError {
    switch answer.problemKind {
    case .invitationRefused:
      FederationError(
        .refused, "\(endpoint) says: \(Problem.Kind.invitationRefused.text)",
        remedy: "Ask the other operator for a new invitation.")
    case .nameTaken:
      FederationError(
        .nameTaken, "\(endpoint) already has a peer \"\(name)\" with another CA, or this CA under another name.",
        remedy: "If that is this relay's past, its operator has to run `relay peer remove`; else choose another `name`"
          + " and run `relay ca issue`.")
    case .urlFixed:
      FederationError(
        .urlFixed, "\(endpoint) already has this relay as a peer under another URL than \(self.endpoint).",
        remedy: "If this relay has moved, ask the other operator to run `relay peer set \(name) --url"
          + " \(self.endpoint)`; if not, check `federation.url`.")
    case .addressRefused:
      FederationError(
        .refused, "\(endpoint) says: \(Problem.Kind.addressRefused.text)",
        remedy: "Set `federation.url` to a public address, or ask the other operator to set `federation.allow-private`."
      )
    case .peerRefused:
      FederationError(
        .refused, "\(endpoint) says: \(Problem.Kind.peerRefused.text)",
        remedy: "Check that `name` is the one in this relay's certificate, and ask the other operator.")
    default: unexpected(answer, from: endpoint)
    }
  }

  func unexpected(_ answer: PeerAnswer, from endpoint: PeerEndpoint) -> FederationError {
    FederationError(
      .unexpectedAnswer, "\(endpoint) answered \(answer.status) with something else than a peering.",
      remedy: "Check that the invitation's URL leads to a relay's federation listener, and try again.")
  }
}
