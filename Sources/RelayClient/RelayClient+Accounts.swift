/// How a verification code is sent. The raw value is the segment of the path (reference 1.4).
public enum CodeTransport: String, Sendable, CaseIterable {
  /// A text message to the number.
  case sms
  /// A call to the number that speaks the digits.
  case voice
  /// The answer to the request holds the code, and nothing is sent. Only a relay with `development.enabled` takes it.
  case development = "dev"
}

extension RelayClient {
  /// Asks for a verification code for `number` (reference 1.4). The request carries no credentials.
  ///
  /// A new code replaces the one before. On return the relay has taken the request; whether the text message or the
  /// call reaches the number is not known.
  /// - Parameters:
  ///   - number: the number to register.
  ///   - transport: how the code is sent.
  /// - Returns: the code as `ddd-ddd` with `.development`; nil with the other transports.
  /// - Throws: `.refused`: 413 too many codes, `retryAfter` says how long to wait; 415 a transport that the relay
  ///   does not know; 503 the relay cannot send. `.unexpectedAnswer` when `.development` answers something else than
  ///   a code.
  @discardableResult
  public func requestCode(for number: PhoneNumber, by transport: CodeTransport = .sms)
    async throws(RelayClientError) -> String?
  {
    let answer = try await with(nil).send(
      RelayRequest(.get, "/v1/accounts/\(transport.rawValue)/code/\(number.e164)"))
    guard transport == .development else { return nil }
    let code = String(decoding: answer.body, as: UTF8.self)
    guard Self.digits(of: code) != nil else {
      throw .unexpectedAnswer(status: answer.status, reason: "its body is not a code")
    }
    return code
  }

  /// Confirms a code, and so registers this client's credentials as device 1 of their number (reference 1.4).
  ///
  /// The account is a new one. An account that the number had before is gone, with its devices, keys and messages.
  /// Upload keys next: nobody can begin a conversation with the device before.
  /// - Parameters:
  ///   - code: six digits, with or without a hyphen.
  ///   - attributes: the description of this device.
  /// - Throws: `.invalidArgument` when the client has no credentials or the code has not six digits; nothing was
  ///   sent. `.refused`: 403 the code is wrong, used or expired, the number is locked with a pin or banned (`reason`
  ///   tells which); 413 too many tries; 417 the number belongs to another relay.
  public func confirm(code: String, attributes: DeviceAttributes) async throws(RelayClientError) {
    guard credentials != nil else { throw .invalidArgument("confirming a code needs the credentials to be created") }
    guard let digits = Self.digits(of: code) else { throw .invalidArgument("a code has six digits") }
    _ = try await send(RelayRequest(.put, "/v1/accounts/code/\(digits)", body: WireAttributes(attributes)))
  }

  /// Replaces this device's description as a whole, `supportsSMS` excepted: relays of this project keep that from
  /// registration (reference 1.5).
  ///
  /// The relay uses a new signaling key at once. A ``LiveSession`` that is open keeps the key that it was opened
  /// with, so connect again after a change. The call counts as being seen today (reference 3.1).
  /// - Parameter attributes: all of the description; `isDiscoverable` nil leaves that setting as it is.
  /// - Throws: `.refused`: 401 wrong credentials, 415 attributes that the relay cannot read.
  public func setAttributes(_ attributes: DeviceAttributes) async throws(RelayClientError) {
    _ = try await send(RelayRequest(.put, "/v1/accounts/attributes/", body: WireAttributes(attributes)))
  }

  /// The six digits of a code as people see it, or nil.
  private static func digits(of code: String) -> String? {
    let digits = code.filter { $0 != "-" }
    guard digits.utf8.count == 6, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits
  }

  private struct WireAttributes: Encodable {
    let signalingKey: String
    let registrationId: Int
    let fetchesMessages: Bool
    let supportsSms: Bool
    let voice: Bool
    let discoverableByPhoneNumber: Bool?

    init(_ attributes: DeviceAttributes) {
      signalingKey = attributes.signalingKey
      registrationId = attributes.registrationID
      fetchesMessages = attributes.fetchesMessages
      supportsSms = attributes.supportsSMS
      voice = attributes.voice
      discoverableByPhoneNumber = attributes.isDiscoverable
    }
  }
}

/// A device that has just registered, with everything that it needs to send and receive.
public struct RegisteredDevice: Sendable {
  /// A client with the new credentials: store `client.credentials`.
  public let client: RelayClient
  /// The device's keys, in memory alone: they end with the process.
  public let keys: DeviceKeys
  /// The attributes that were registered. Their signaling key opens live deliveries.
  public let attributes: DeviceAttributes

  /// Joins the parts of a device that was registered step by step.
  /// - Parameters:
  ///   - client: a client with the device's credentials.
  ///   - keys: the keys whose bundle the device has uploaded.
  ///   - attributes: the attributes that the device has registered.
  public init(client: RelayClient, keys: DeviceKeys, attributes: DeviceAttributes) {
    self.client = client
    self.keys = keys
    self.attributes = attributes
  }
}

extension RelayClient {
  /// Registers `number` in three requests: asks for a code, confirms it, uploads fresh keys of version 1
  /// (reference 1.4, 1.6).
  ///
  /// Credentials, attributes and keys are made inside and given back with the result alone. If the last request
  /// fails, the number is registered and its credentials are lost: register again.
  /// - Parameters:
  ///   - number: the number to register. An account that it had before is gone.
  ///   - transport: how the code is sent. With `.development` the answer holds it, and `readCode` is not called.
  ///   - readCode: asks the person for the code, six digits with or without a hyphen; nil gives up.
  /// - Returns: the device, with a client that has its credentials.
  /// - Throws: `.invalidArgument` when `readCode` gives up; otherwise as ``requestCode(for:by:)``,
  ///   ``confirm(code:attributes:)`` and `upload(_:)`.
  public func register(
    _ number: PhoneNumber, by transport: CodeTransport = .development,
    readCode: @Sendable () async -> String? = { nil }
  ) async throws(RelayClientError) -> RegisteredDevice {
    var code = try await requestCode(for: number, by: transport)
    if code == nil { code = await readCode() }
    guard let code else { throw .invalidArgument("registering needs the code that was sent to the number") }
    let client = with(.random(for: number))
    let attributes = DeviceAttributes.random()
    try await client.confirm(code: code, attributes: attributes)
    let keys = DeviceKeys()
    try await client.upload(keys.bundle)
    return RegisteredDevice(client: client, keys: keys, attributes: attributes)
  }
}
