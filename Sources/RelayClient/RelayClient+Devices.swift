/// A device of one's own account, as the relay lists it.
public struct ListedDevice: Sendable, Hashable, Decodable {
  /// 1 is the device that registered the number.
  public let id: Int
  public let name: String?
  /// The UTC day on which the relay last saw it: its midnight, milliseconds since 1970.
  public let lastSeen: Int64
  /// Milliseconds since 1970.
  public let created: Int64
}

extension RelayClient {
  /// Asks, as device 1, for a code by which another device links itself to the account.
  /// - Returns: six digits, good for one device and for a short time; they replace those asked for before.
  /// - Throws: `.refused`: 401 by another device, 411 as many devices as there may be, 413 too many codes.
  public func requestLinkingCode() async throws(RelayClientError) -> String {
    try await send(RelayRequest(.get, "/v1/devices/provisioning/code")).decoded(WireCode.self).verificationCode
  }

  /// Links this installation to the account of `number` by a code that its device 1 asked for.
  ///
  /// Until it has uploaded a signed prekey, nobody sends to it.
  /// - Parameter name: how the account's other devices show it, at most 50 characters.
  /// - Returns: the same relay as the new device.
  /// - Throws: `.refused`: 403 the code is wrong, used or expired; 411, 413 too many devices or tries; 422 a name that
  ///   is too long.
  public func link(
    to number: PhoneNumber, code: String, attributes: DeviceAttributes, name: String? = nil
  ) async throws(RelayClientError) -> RelayClient {
    let created = Credentials.random(for: number)
    let body = WireLink(
      signalingKey: attributes.signalingKey, registrationId: attributes.registrationID,
      fetchesMessages: attributes.fetchesMessages, name: name)
    let answer = try await with(created).send(RelayRequest(.put, "/v1/devices/\(code)", body: body))
    let id = try answer.decoded(WireLinked.self).deviceId
    return with(Credentials(Correspondent(number, deviceID: id), password: created.password))
  }

  /// All devices of this account, ascending by id.
  public func devices() async throws(RelayClientError) -> [ListedDevice] {
    let listed = try await send(RelayRequest(.get, "/v1/devices/")).decoded([String: [ListedDevice]].self)
    return (listed["devices"] ?? []).sorted { $0.id < $1.id }
  }

  /// Removes, as device 1, a linked device with its keys and its mailbox. No error when there is none.
  /// - Throws: `.refused`: 401 by another device; also for device 1 itself, which cannot be removed.
  public func removeDevice(_ id: Int) async throws(RelayClientError) {
    _ = try await send(RelayRequest(.delete, "/v1/devices/\(id)"))
  }

  private struct WireCode: Decodable { let verificationCode: String }
  private struct WireLinked: Decodable { let deviceId: Int }
  private struct WireLink: Encodable {
    let signalingKey: String
    let registrationId: Int
    let fetchesMessages: Bool
    let name: String?
  }
}
