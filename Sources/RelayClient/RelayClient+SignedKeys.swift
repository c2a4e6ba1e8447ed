// Prekeys of the protocol's second version: with one that the account's identity key has signed.

/// A prekey that serves many senders and proves whose it is.
public struct SignedPublicPreKey: Sendable, Hashable, Codable {
  public let keyID: Int64
  /// As in `PublicPreKey`.
  public let publicKey: String
  /// 64 bytes in base64 without padding, as `IdentityKeys.signature(of:)` makes them.
  public let signature: String

  public init(keyID: Int64, publicKey: String, signature: String) {
    self.keyID = keyID
    self.publicKey = publicKey
    self.signature = signature
  }

  private enum CodingKeys: String, CodingKey {
    case keyID = "keyId"
    case publicKey
    case signature
  }
}

/// The public keys that a device uploads at once, a signed one among them.
public struct SignedPreKeyBundle: Sendable, Hashable {
  /// 33 bytes in base64 without padding. The same for all devices of an account; only device 1 may change it.
  public let identityKey: String
  /// Take the place of those uploaded before; each is handed out once; may be empty.
  public let oneTimeKeys: [PublicPreKey]
  /// Handed out when no other is left; nil keeps the one before.
  public let lastResort: PublicPreKey?
  public let signed: SignedPublicPreKey

  public init(
    identityKey: String, oneTimeKeys: [PublicPreKey], lastResort: PublicPreKey?, signed: SignedPublicPreKey
  ) {
    self.identityKey = identityKey
    self.oneTimeKeys = oneTimeKeys
    self.lastResort = lastResort
    self.signed = signed
  }
}

/// The keys of somebody's device, drawn to begin a conversation with it.
public struct RemoteDeviceKeys: Sendable, Hashable {
  public let deviceID: Int
  /// What a message to the device names, so that a device installed anew is noticed.
  public let registrationID: Int
  public let identityKey: String
  /// Check its signature with `identityKey` before it is used: the relay is not trusted with that. nil when the device
  /// has none.
  public let signed: SignedPublicPreKey?
  /// nil when the device has none, not even a last resort.
  public let preKey: PublicPreKey?
}

extension RelayClient {
  /// Uploads this device's public keys in the place of those it had.
  /// - Throws: `.refused`: 403 a linked device that brings another identity key than the account's, 415 a signed
  ///   prekey that the identity key did not sign.
  public func upload(_ bundle: SignedPreKeyBundle) async throws(RelayClientError) {
    let body = WireUpload(
      identityKey: bundle.identityKey, preKeys: bundle.oneTimeKeys.map(WirePreKey.init),
      lastResortKey: bundle.lastResort.map(WirePreKey.init), signedPreKey: bundle.signed)
    _ = try await send(RelayRequest(.put, "/v2/keys", body: body))
  }

  /// Puts `key` in the place of this device's signed prekey. - Throws: `.refused`: 415 as in `upload`.
  public func replaceSignedPreKey(with key: SignedPublicPreKey) async throws(RelayClientError) {
    _ = try await send(RelayRequest(.put, "/v2/keys/signed", body: key))
  }

  /// This device's signed prekey, or nil.
  public func signedPreKey() async throws(RelayClientError) -> SignedPublicPreKey? {
    do {
      return try await send(RelayRequest(.get, "/v2/keys/signed")).decoded(SignedPublicPreKey.self)
    } catch {
      if error.status == 404 { return nil }
      throw error
    }
  }

  /// Draws the keys of one device of `number`, or of each that is active. One-time keys among them are nobody else's.
  /// - Parameters:
  ///   - deviceID: nil for all devices.
  ///   - relay: the relay that the directory names for the number; nil for this client's own.
  /// - Returns: one per device; never empty.
  /// - Throws: `.refused`: 404 no such number, device or relay; 413 too many; 503 the other relay is away.
  public func drawKeys(of number: PhoneNumber, deviceID: Int? = nil, at relay: String? = nil)
    async throws(RelayClientError) -> [RemoteDeviceKeys]
  {
    let path = "/v2/keys/\(number.e164)/\(deviceID.map(String.init) ?? "*")" + (try relayQuery(relay))
    let answer = try await send(RelayRequest(.get, path, answerBytesMax: AnswerLimits.keysBytesMax))
    let drawn = try answer.decoded(WireDrawn.self)
    return drawn.devices.map { device in
      RemoteDeviceKeys(
        deviceID: device.deviceId, registrationID: device.registrationId ?? 0, identityKey: drawn.identityKey,
        signed: device.signedPreKey, preKey: device.preKey?.key)
    }
  }

  private struct WirePreKey: Codable {
    let keyId: Int64
    let publicKey: String

    init(_ key: PublicPreKey) {
      keyId = key.keyID
      publicKey = key.publicKey
    }
    var key: PublicPreKey { PublicPreKey(keyID: keyId, publicKey: publicKey) }
  }
  private struct WireUpload: Encodable {
    let identityKey: String
    let preKeys: [WirePreKey]
    let lastResortKey: WirePreKey?
    let signedPreKey: SignedPublicPreKey
  }
  private struct WireDrawn: Decodable {
    struct Device: Decodable {
      let deviceId: Int
      let registrationId: Int?
      let signedPreKey: SignedPublicPreKey?
      let preKey: WirePreKey?
    }
    let identityKey: String
    let devices: [Device]
  }
}
