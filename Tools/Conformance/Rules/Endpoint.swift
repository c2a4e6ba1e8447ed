// The table of everything that a client can ask (reference 1.3), for rules that hold for all of it.

/// One method of one path, with a request that is right.
struct Endpoint: Sendable {
  enum Caller: Sendable {
    case anyone
    /// Credentials that are being created: of a number that nobody has, each time another.
    case creating
    case device
  }

  let method: String
  /// Without a trailing slash.
  let path: String
  let body: JSON?
  let caller: Caller
  /// The answer to a right request.
  let statuses: [Int]

  private init(
    _ method: String, _ path: String, _ body: JSON? = nil, by caller: Caller = .device, answering statuses: Int...
  ) {
    self.method = method
    self.path = path
    self.body = body
    self.caller = caller
    self.statuses = statuses.isEmpty ? [200] : statuses
  }

  /// Every endpoint, about `other`, who has uploaded keys. Three of them draw a prekey of its device 1, two ask for a
  /// linking code.
  static func all(_ session: Session, about other: Device) throws -> [Endpoint] {
    open(session) + pushRegistration() + (try keys(other)) + (try messages(other)) + devices()
  }

  /// Asks as `device` where credentials are needed.
  func ask(
    _ session: Session, as device: Device, suffix: String = "", body other: JSON? = nil,
    extra: [(String, String)] = []
  ) async throws -> Answer {
    try await session.ask(
      method, path + suffix, other ?? body, as: try credentials(session, device), extra: extra)
  }

  /// The request that `ask` sends, to be changed.
  func exchange(_ session: Session, as device: Device) throws -> Exchange {
    try session.exchange(method, path, body, as: try credentials(session, device))
  }

  private func credentials(_ session: Session, _ device: Device) throws -> Device? {
    switch caller {
    case .anyone: nil
    case .creating: try session.stranger()
    case .device: device
    }
  }

  func expect(_ answer: Answer) throws(RuleFailure) {
    guard !statuses.contains(answer.status) else { return }
    let list = statuses.map(String.init).joined(separator: " or ")
    throw RuleFailure(expected: "status \(list)", got: answer.summary, request: answer.request)
  }

  /// No code is pending where one is redeemed: 403 after everything else was found right.
  private static func open(_ session: Session) -> [Endpoint] {
    [
      Endpoint("GET", "/v1/accounts/dev/code/\(session.numbers.draw())", by: .anyone),
      Endpoint("PUT", "/v1/accounts/code/123456", attributes(), by: .creating, answering: 403),
      Endpoint("PUT", "/v1/acccounts/code/123456", attributes(), by: .creating, answering: 403),
      Endpoint("PUT", "/v1/accounts/token/none", attributes(), by: .creating, answering: 403),
      Endpoint("GET", "/v1/accounts/token", answering: 200, 404),
      Endpoint("POST", "/v1/accounts/voice/twiml/123456", by: .anyone),
    ]
  }

  private static func pushRegistration() -> [Endpoint] {
    [
      Endpoint("PUT", "/v1/accounts/gcm", ["gcmRegistrationId": "gcm"]), Endpoint("DELETE", "/v1/accounts/gcm"),
      Endpoint("PUT", "/v1/accounts/apn", ["apnRegistrationId": "apn"]), Endpoint("DELETE", "/v1/accounts/apn"),
      Endpoint("PUT", "/v1/accounts/wsc"), Endpoint("DELETE", "/v1/accounts/wsc"),
      Endpoint("PUT", "/v1/accounts/attributes", attributes()),
    ]
  }

  private static func keys(_ other: Device) throws -> [Endpoint] {
    let keys = KeySet(other.identity, oneTime: [1])
    return [
      Endpoint("PUT", "/v1/keys", keys.version1()), Endpoint("GET", "/v1/keys"),
      Endpoint("GET", "/v1/keys/\(other.number)"), Endpoint("GET", "/v1/keys/\(other.number)/1"),
      Endpoint("PUT", "/v2/keys", try keys.version2()), Endpoint("GET", "/v2/keys"),
      Endpoint("GET", "/v2/keys/\(other.number)/1"),
      Endpoint("PUT", "/v2/keys/signed", try keys.signedJSON()), Endpoint("GET", "/v2/keys/signed"),
    ]
  }

  private static func messages(_ other: Device) throws -> [Endpoint] {
    let token = Token.urlSafe(try Token.of(other.number))
    return [
      Endpoint("PUT", "/v1/messages/\(other.number)", ["messages": [message()]]),
      Endpoint("POST", "/v1/messages", ["messages": [message().with(["destination": .string(other.number)])]]),
      Endpoint("GET", "/v1/messages"), Endpoint("DELETE", "/v1/messages/\(other.number)/1"),
      // Nothing was received from there.
      Endpoint("PUT", "/v1/receipt/\(other.number)/1", answering: 404),
      Endpoint("GET", "/v1/attachments"), Endpoint("GET", "/v1/attachments/4611686018427387904"),
      Endpoint("PUT", "/v1/directory/tokens", ["contacts": [.string(token)]]),
      Endpoint("GET", "/v1/directory/\(token)"),
    ]
  }

  private static func devices() -> [Endpoint] {
    [
      Endpoint("GET", "/v1/devices"), Endpoint("DELETE", "/v1/devices/7"),
      Endpoint("GET", "/v1/devices/provisioning_code"), Endpoint("GET", "/v1/devices/provisioning/code"),
      Endpoint("PUT", "/v1/devices/123456", attributes(), by: .creating, answering: 403),
      // No device waits at that address.
      Endpoint("PUT", "/v1/provisioning/HPHy8_T19vf4-rg7_P3-_w", ["body": "AAAA"], answering: 404),
    ]
  }
}

/// One message of a bundle.
func message(
  _ body: String = "Zm9v", type: Int = 1, device: Int = 1, registrationID: Int = 0
) -> JSON {
  [
    "type": JSON(type), "destinationDeviceId": JSON(device), "destinationRegistrationId": JSON(registrationID),
    "body": .string(body),
  ]
}
