import Hummingbird
import RelayCore
import RelayHTTP

/// Messages of a peer's accounts for ours (reference 1.13.2).
struct PeerMessagesController: Sendable {
  let intake: any Intake
  let limiter: any RateLimiter
  let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/messages/{source}/{sourceDevice}/{destination}", [(.put, put)])
  }

  /// 200 after every message is durable. The relay that recipients are shown is the one that the certificate proved,
  /// whatever the body says (reference 1.13.3).
  private func put(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let source = try context.number("source")
    guard let device = DeviceID(text: try context.segment("sourceDevice")) else { throw Problem(.notFound) }
    let destination = try context.number("destination")
    let body = try await request.jsonBody(max: WireLimits.messageRequestBytesMax)
    let bundle = try body.decodeJSON { json throws(JSONError) in try MessageBundle.decode(json) }
    // A number that is registered here is ours to speak for.
    guard try await !isLocalAccount(source) else { throw Problem(.peerRefused) }
    try await charge(source, destination)
    let submission = Submission(destination: destination, messages: bundle.messages, timestamp: bundle.timestamp)
    let origin = Origin.peer(context.peer.name, source: DeviceAddress(source, device))
    _ = try await intake.accept(submission, from: origin)
    return .done
  }

  /// A refusal is the relay's to wait out, not its client's (reference 1.13.2).
  private func charge(_ source: AccountNumber, _ destination: AccountNumber) async throws(Problem) {
    do throws(Problem) {
      try await limiter.charge(.messages, LimitKey(source, destination))
    } catch {
      throw Problem(.unavailable, retryAfter: error.retryAfter)
    }
  }
}
