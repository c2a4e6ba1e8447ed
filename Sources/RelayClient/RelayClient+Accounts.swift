/// How a code comes to its reader.
public enum CodeTransport: String, Sendable, CaseIterable {
  case sms
  case voice
  /// The answer holds the code. Only a relay with `development.enabled` knows it.
  case development = "dev"
}

extension RelayClient {
  /// Asks for a verification code for `number`.
  /// - Returns: the code as `ddd-ddd` from the development transport; nil otherwise, since it goes to the number.
  /// - Throws: `.refused`: 413 too many, 415 a transport that the relay does not know.
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

  /// Confirms `code` (`ddd-ddd` or `dddddd`) and so creates this client's credentials at the relay.
  ///
  /// Replaces the account that the number had, its devices, keys and messages with it.
  /// - Throws: `.refused`: 403 the code is wrong, used or expired; 413 too many tries; 417 the number belongs to
  ///   another relay.
  public func confirm(code: String, attributes: DeviceAttributes) async throws(RelayClientError) {
    guard credentials != nil else { throw .invalidArgument("confirming a code needs the credentials to be created") }
    guard let digits = Self.digits(of: code) else { throw .invalidArgument("a code has six digits") }
    _ = try await send(RelayRequest(.put, "/v1/accounts/code/\(digits)", body: WireAttributes(attributes)))
  }

  /// Says anew what this device is, all of it; whether texts can be sent is said at registration alone.
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

/// A device that has just registered: all it needs to talk.
public struct RegisteredDevice: Sendable {
  /// Carries the new credentials.
  public let client: RelayClient
  public let keys: DeviceKeys
  public let attributes: DeviceAttributes

  public init(client: RelayClient, keys: DeviceKeys, attributes: DeviceAttributes) {
    self.client = client
    self.keys = keys
    self.attributes = attributes
  }
}

extension RelayClient {
  /// Registers `number` anew: asks for a code, confirms it, uploads fresh keys.
  ///
  /// - Parameters:
  ///   - transport: how the code comes. By `.development` it is read from the answer and `readCode` is not called.
  ///   - readCode: asks the person for the code that came to the number; nil gives up.
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
