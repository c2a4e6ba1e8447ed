/// A prekey's public half.
public struct PublicPreKey: Sendable, Hashable {
  public let keyID: Int64
  /// 33 bytes, 0x05 and a Curve25519 key, in base64 without padding: 44 characters.
  public let publicKey: String

  public init(keyID: Int64, publicKey: String) {
    self.keyID = keyID
    self.publicKey = publicKey
  }
}

/// The public keys that a device uploads at once; they replace all that it uploaded before.
public struct PreKeyBundle: Sendable, Hashable {
  /// 33 bytes in base64 without padding, as prekeys are.
  public let identityKey: String
  /// Each is handed out once; may be empty.
  public let oneTimeKeys: [PublicPreKey]
  /// Handed out, any number of times, when no other is left.
  public let lastResort: PublicPreKey

  public init(identityKey: String, oneTimeKeys: [PublicPreKey], lastResort: PublicPreKey) {
    self.identityKey = identityKey
    self.oneTimeKeys = oneTimeKeys
    self.lastResort = lastResort
  }
}

/// A prekey of somebody's device, drawn to begin a conversation with it.
public struct RemotePreKey: Sendable, Hashable {
  public let deviceID: Int
  /// What a message to the device names, so that a device installed anew is noticed.
  public let registrationID: Int
  public let identityKey: String
  public let preKey: PublicPreKey

  public init(deviceID: Int, registrationID: Int, identityKey: String, preKey: PublicPreKey) {
    self.deviceID = deviceID
    self.registrationID = registrationID
    self.identityKey = identityKey
    self.preKey = preKey
  }
}

extension RelayClient {
  /// Uploads this device's public keys in the place of those it had.
  public func upload(_ bundle: PreKeyBundle) async throws(RelayClientError) {
    let wire = { (key: PublicPreKey) in
      WireKey(keyId: key.keyID, publicKey: key.publicKey, identityKey: bundle.identityKey)
    }
    let body = WireUpload(lastResortKey: wire(bundle.lastResort), keys: bundle.oneTimeKeys.map(wire))
    _ = try await send(RelayRequest(.put, "/v1/keys", body: body))
  }

  /// How many one-time keys of this device are left; the last resort does not count.
  public func preKeyCount() async throws(RelayClientError) -> Int {
    try await send(RelayRequest(.get, "/v1/keys")).decoded(WireCount.self).count
  }

  /// Draws a prekey of one device of `number`, or of each that is active. What is drawn is nobody else's.
  /// - Parameters:
  ///   - deviceID: nil for all devices.
  ///   - relay: the relay that the directory names for the number; nil for this client's own.
  /// - Returns: one per device; never empty.
  /// - Throws: `.refused`: 404 no such number, device or relay; 413 too many; 503 the other relay is away.
  public func drawPreKeys(of number: PhoneNumber, deviceID: Int? = nil, at relay: String? = nil)
    async throws(RelayClientError) -> [RemotePreKey]
  {
    let path = "/v1/keys/\(number.e164)/\(deviceID.map(String.init) ?? "*")" + (try relayQuery(relay))
    let answer = try await send(RelayRequest(.get, path, answerBytesMax: AnswerLimits.keysBytesMax))
    return try answer.decoded(WireDrawn.self).keys.map { key in
      RemotePreKey(
        deviceID: key.deviceId, registrationID: key.registrationId ?? 0, identityKey: key.identityKey,
        preKey: PublicPreKey(keyID: key.keyId, publicKey: key.publicKey))
    }
  }

  private struct WireKey: Encodable {
    let keyId: Int64
    let publicKey: String
    let identityKey: String
  }
  private struct WireUpload: Encodable {
    let lastResortKey: WireKey
    let keys: [WireKey]
  }
  private struct WireCount: Decodable { let count: Int }
  private struct WireDrawn: Decodable {
    struct Key: Decodable {
      let deviceId: Int
      let keyId: Int64
      let publicKey: String
      let identityKey: String
      let registrationId: Int?
    }
    let keys: [Key]
  }
}
