// Prekeys of the protocol's second version: with one that the account's identity key has signed.

/// A prekey that serves many senders, with a signature of the account's identity key (reference 1.7).
///
/// Its JSON is the wire's: `keyId`, `publicKey`, `signature`.
public struct SignedPublicPreKey: Sendable, Hashable, Codable {
  /// The id that the device gave the key. Clients use 0...16777215.
  public let keyID: Int64
  /// 33 bytes, 0x05 and a Curve25519 key, in base64 without padding: 44 characters.
  public let publicKey: String
  /// 64 bytes in base64 without padding, 86 characters, as `IdentityKeys.signature(of:)` makes them.
  public let signature: String

  /// Makes a signed prekey. Nothing is checked: this project's relays verify the signature of an upload.
  /// - Parameters:
  ///   - keyID: the id by which the device finds the private half again.
  ///   - publicKey: 33 bytes in base64 without padding.
  ///   - signature: 64 bytes in base64 without padding.
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

/// The public keys of version 2 that a device uploads at once, a signed one among them (reference 1.7).
public struct SignedPreKeyBundle: Sendable, Hashable {
  /// 33 bytes in base64 without padding. All devices of an account have the same; only device 1 may change it.
  public let identityKey: String
  /// Keys that the relay hands out once each, in place of all that were uploaded before. It may be empty; this
  /// project's relays take 1,000.
  public let oneTimeKeys: [PublicPreKey]
  /// The key for when no one-time key is left. nil keeps the one before on this project's relays; historic ones
  /// demand it.
  public let lastResort: PublicPreKey?
  /// The signed prekey. A linked device is not active without one (reference 3.1).
  public let signed: SignedPublicPreKey

  /// Makes a bundle. Nothing is checked.
  /// - Parameters:
  ///   - identityKey: the account's identity key, 44 characters.
  ///   - oneTimeKeys: keys that are handed out once each.
  ///   - lastResort: the key for when no other is left; nil keeps the one before.
  ///   - signed: a prekey that the identity key has signed.
  public init(
    identityKey: String, oneTimeKeys: [PublicPreKey], lastResort: PublicPreKey?, signed: SignedPublicPreKey
  ) {
    self.identityKey = identityKey
    self.oneTimeKeys = oneTimeKeys
    self.lastResort = lastResort
    self.signed = signed
  }
}

/// The keys of version 2 of another device, drawn to begin a conversation with it (reference 1.7).
public struct RemoteDeviceKeys: Sendable, Hashable {
  /// The id of the device that the keys are of; 1 is the device that registered the number.
  public let deviceID: Int
  /// The number to put into ``OutgoingMessage/registrationID``, so that the relay notices a device that was installed
  /// anew. 0 when the relay tells none.
  public let registrationID: Int
  /// The account's identity key, 44 characters of base64. Nothing proves that it is the account's: compare it over
  /// another channel.
  public let identityKey: String
  /// The signed prekey; nil when the device has none. This library does not check the signature: check it with
  /// `identityKey` before the key is used.
  public let signed: SignedPublicPreKey?
  /// A one-time key that nobody else is given, or the device's last resort; nil when the device has neither.
  public let preKey: PublicPreKey?
}

extension RelayClient {
  /// Uploads public keys of version 2 in the place of those that the device had (reference 1.7).
  ///
  /// If device 1 brings another identity key, the signed prekeys of the account's other devices are removed.
  /// - Parameter bundle: the keys, with at most 1,000 one-time keys on this project's relays.
  /// - Throws: `.refused`: 401 wrong credentials; 403 a linked device brought another identity key than the
  ///   account's; 415 a signed prekey that the identity key did not sign, or keys that the relay cannot read.
  public func upload(_ bundle: SignedPreKeyBundle) async throws(RelayClientError) {
    let body = WireUpload(
      identityKey: bundle.identityKey, preKeys: bundle.oneTimeKeys.map(WirePreKey.init),
      lastResortKey: bundle.lastResort.map(WirePreKey.init), signedPreKey: bundle.signed)
    _ = try await send(RelayRequest(.put, "/v2/keys", body: body))
  }

  /// Replaces this device's signed prekey (reference 1.7). Its other keys stay.
  /// - Parameter key: a prekey that the account's present identity key has signed.
  /// - Throws: `.refused`: 401 wrong credentials; 415 the identity key did not sign it, or the account has none yet.
  public func replaceSignedPreKey(with key: SignedPublicPreKey) async throws(RelayClientError) {
    _ = try await send(RelayRequest(.put, "/v2/keys/signed", body: key))
  }

  /// Asks for this device's signed prekey (reference 1.7).
  /// - Returns: nil when the relay answers 404: the device has none.
  /// - Throws: `.refused`: 401 wrong credentials.
  public func signedPreKey() async throws(RelayClientError) -> SignedPublicPreKey? {
    do {
      return try await send(RelayRequest(.get, "/v2/keys/signed")).decoded(SignedPublicPreKey.self)
    } catch {
      if error.status == 404 { return nil }
      throw error
    }
  }

  /// Draws the keys of version 2 of one device of `number`, or of each active device (reference 1.7).
  ///
  /// A one-time key is used up with the answer, also when the answer is lost. The own number is allowed.
  /// - Parameters:
  ///   - number: the number to begin a conversation with.
  ///   - deviceID: the id of one device; nil for all that are active and have a key.
  ///   - relay: the relay that the directory names for the number, ``Contact/relay``; nil for this client's own.
  /// - Returns: the keys of each device, in the order of the relay's answer. Relays answer 404 rather than no device.
  /// - Throws: `.refused`: 404 no such number, device or relay; 413 too many draws; 503 the other relay is away.
  ///   `.invalidArgument` for an empty `relay`.
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
