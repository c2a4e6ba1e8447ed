/// A device of this client's account, as the relay lists it (reference 1.14).
public struct ListedDevice: Sendable, Hashable, Decodable {
  /// 1 is the device that registered the number.
  public let id: Int
  /// The name that the device was linked under; nil when it gave none.
  public let name: String?
  /// The midnight of the UTC day on which the relay last saw the device, in milliseconds since 1970.
  public let lastSeen: Int64
  /// The time of registration or linking, in milliseconds since 1970.
  public let created: Int64
}

extension RelayClient {
  /// Asks, as device 1, for a code with which another device links itself to the account (reference 1.14).
  ///
  /// The code is good for one device and for a short time. It replaces a code that was asked for before.
  /// - Returns: six digits, without a hyphen.
  /// - Throws: `.refused`: 401 another device than device 1 asked; 411 the account has as many active devices as it
  ///   may have; 413 too many codes.
  public func requestLinkingCode() async throws(RelayClientError) -> String {
    try await send(RelayRequest(.get, "/v1/devices/provisioning/code")).decoded(WireCode.self).verificationCode
  }

  /// Links this installation to the account of `number` with a code that device 1 asked for (reference 1.14).
  ///
  /// The device gets a random password and an id from the relay. It is not active before it has uploaded a signed
  /// prekey with `upload(_:)`: until then nobody sends to it (reference 3.1). This client's own credentials are not
  /// used.
  /// - Parameters:
  ///   - number: the number of the account.
  ///   - code: the six digits that ``requestLinkingCode()`` gave to device 1, without a hyphen.
  ///   - attributes: the description of this device. Its signaling key, registration id and `fetchesMessages` are
  ///     sent; the rest belongs to the account.
  ///   - name: the name that ``devices()`` shows, at most 50 characters; nil for none.
  /// - Returns: a client of the same relay, with the new device's credentials. Store them.
  /// - Throws: `.refused`: 403 the code is wrong, used or expired; 411 the account has as many active devices as it
  ///   may have; 413 too many tries; 422 the name is too long.
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

  /// Lists all devices of this client's account, active or not (reference 1.14).
  /// - Returns: the devices, ascending by id.
  /// - Throws: `.refused`: 401 wrong credentials.
  public func devices() async throws(RelayClientError) -> [ListedDevice] {
    let listed = try await send(RelayRequest(.get, "/v1/devices/")).decoded([String: [ListedDevice]].self)
    return (listed["devices"] ?? []).sorted { $0.id < $1.id }
  }

  /// Removes, as device 1, a linked device with its keys and its mailbox (reference 1.14).
  ///
  /// A device that does not exist is no error. The removed device's credentials are void within a second.
  /// - Parameter id: the id of a linked device.
  /// - Throws: `.refused`: 401 another device than device 1 asked; 403 for device 1, which cannot be removed.
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
