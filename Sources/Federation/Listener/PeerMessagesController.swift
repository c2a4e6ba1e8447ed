import Hummingbird
import RelayCore
import RelayHTTP

/// Messages and receipts of a peer's accounts for ours (reference 1.13.2, 1.13.6).
struct PeerMessagesController: Sendable {
  let intake: any Intake
  let limiter: any RateLimiter
  let isLocalAccount: @Sendable (AccountNumber) async throws(Problem) -> Bool

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/messages/{source}/{sourceDevice}/{destination}", [(.put, put)])
    group.resource("v1/receipt/{source}/{sourceDevice}/{destination}/{timestamp}", [(.put, putReceipt)])
  }

  /// 200 after every message is durable. The relay that recipients are shown is the one that the certificate proved,
  /// whatever the body says (reference 1.13.3).
  private func put(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let source = try context.source()
    let destination = try context.number("destination")
    let body = try await request.jsonBody(max: WireLimits.messageRequestBytesMax)
    let bundle = try body.decodeJSON { json throws(JSONError) in try MessageBundle.decode(json) }
    try await demandPeers(source.account)
    let (peer, key) = (context.peer.name, LimitKey(source.account, destination))
    let submission = Submission(destination: destination, messages: bundle.messages, timestamp: bundle.timestamp)
    try await limited { () async throws(Problem) in
      try await limiter.chargeMessages(max(1, submission.messagesPerDeviceMax), LimitKey(peer, key))
    }
    _ = try await intake.accept(submission, from: .peer(peer, source: source))
    return .done
  }

  /// `source`, the peer's account, has received what `destination`, ours, sent at `timestamp`. A body is not read.
  private func putReceipt(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    let source = try context.source()
    let destination = try context.number("destination")
    guard let millis = Int64(try context.segment("timestamp")) else { throw Problem(.notFound) }
    try await demandPeers(source.account)
    let key = LimitKey(context.peer.name, LimitKey(source.account))
    try await limited { () async throws(Problem) in try await limiter.charge(.receipts, key) }
    try await intake.acceptReceipt(
      for: Timestamp(millis: millis), to: destination, from: .peer(context.peer.name, source: source))
    return .done
  }

  /// A number that is registered here is ours to speak for.
  private func demandPeers(_ source: AccountNumber) async throws(Problem) {
    guard try await !isLocalAccount(source) else { throw Problem(.peerRefused) }
  }

  /// A refusal is the relay's to wait out, not its client's (reference 1.13.2).
  private func limited(_ charge: () async throws(Problem) -> Void) async throws(Problem) {
    do throws(Problem) {
      try await charge()
    } catch {
      throw Problem(.unavailable, retryAfter: error.retryAfter)
    }
  }
}

extension PeerContext {
  /// The device that the peer speaks for. - Throws: `.notFound` when the path names none.
  fileprivate func source() throws(Problem) -> DeviceAddress {
    let account = try number("source")
    guard let device = DeviceID(text: try segment("sourceDevice")) else { throw Problem(.notFound) }
    return DeviceAddress(account, device)
  }
}
