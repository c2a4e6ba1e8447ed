import NIOCore
import RelayCore

/// One sender's messages to many recipients in turn, one message for one device each.
struct MessageWorkload: Workload {
  /// The transport that its requests are written for.
  enum Carrier: Sendable {
    /// An HTTP/1.1 connection.
    case http
    /// The sender's own WebSocket: what stands in one binary frame.
    case socket
  }

  private let recipients: [String]
  private var turn: Int
  private var timestamp: Int64
  private var template: RequestTemplate
  private let destinationField: RequestTemplate.Field
  private let timestampField: RequestTemplate.Field

  /// - Parameters:
  ///   - recipients: at least one; each connection begins at a turn of its own.
  ///   - relay: the peer where they live; nil for the sender's own relay.
  ///   - body: what is sent, before base64.
  ///   - timestamp: milliseconds since 1970 of the first message. Each one is a millisecond younger than the one
  ///     before, so that no message repeats another.
  init(
    from sender: BenchmarkAccount, to recipients: [BenchmarkAccount], beginningAt turn: Int, relay: String?,
    body: [UInt8], timestamp: Int64, over carrier: Carrier = .http
  ) throws(BenchmarkFailure) {
    self.recipients = recipients.map(\.number)
    self.turn = turn
    self.timestamp = timestamp
    let first = recipients[turn % recipients.count].number
    let relayMember = relay.map { #""relay":"\#($0)","# } ?? ""
    let path = "/v1/messages/\(first)"
    let text = """
      {"messages":[{"type":1,"destinationDeviceId":1,"destinationRegistrationId":\(Population.registrationID),\
      "body":"\(Base64.encode(body, padded: true))"}],\(relayMember)"timestamp":\(timestamp)}
      """
    template =
      switch carrier {
      case .http: RequestTemplate("PUT", path: path, authorization: sender.authorization, body: text)
      case .socket: try SocketPayload.request("PUT", path: path, body: text)
      }
    destinationField = try template.field(first)
    timestampField = try template.field("\(timestamp)")
  }

  mutating func nextRequest() -> ByteBuffer {
    template.set(destinationField, recipients[turn % recipients.count])
    template.set(timestampField, "\(timestamp)")
    turn += 1
    timestamp += 1
    return template.request
  }

  func rowsChanged(by answer: Answer) -> Int { 1 }
}

/// One account's draws of prekeys of many others in turn.
struct DrawWorkload: Workload {
  private let owners: [String]
  private var turn: Int
  private var template: RequestTemplate
  private let ownerField: RequestTemplate.Field

  /// - Parameters:
  ///   - owners: at least one; each connection begins at a turn of its own.
  ///   - relay: the peer where they live; nil for the account's own relay.
  init(
    by account: BenchmarkAccount, of owners: [BenchmarkAccount], beginningAt turn: Int, relay: String?
  ) throws(BenchmarkFailure) {
    self.owners = owners.map(\.number)
    self.turn = turn
    let first = owners[turn % owners.count].number
    template = RequestTemplate(
      "GET", path: "/v1/keys/\(first)/*" + (relay.map { "?relay=\($0)" } ?? ""),
      authorization: account.authorization)
    ownerField = try template.field(first)
  }

  mutating func nextRequest() -> ByteBuffer {
    template.set(ownerField, owners[turn % owners.count])
    turn += 1
    return template.request
  }

  /// One, unless it was the last resort, which stays.
  func rowsChanged(by answer: Answer) -> Int {
    answer.body.readableBytesView.firstRange(of: Population.lastResortMark) == nil ? 1 : 0
  }
}
