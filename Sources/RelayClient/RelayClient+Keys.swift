/// A prekey's public half (reference 1.6).
public struct PublicPreKey: Sendable, Hashable {
  /// The id that the device gave the key. Clients use 0...16777215, and each id for one key.
  public let keyID: Int64
  /// 33 bytes, 0x05 and a Curve25519 key, in base64 without padding: 44 characters.
  public let publicKey: String

  /// Makes a prekey. Nothing is checked: a relay stores and returns the very text.
  /// - Parameters:
  ///   - keyID: the id by which the device finds the private half again.
  ///   - publicKey: 33 bytes, 0x05 and a Curve25519 key, in base64 without padding.
  public init(keyID: Int64, publicKey: String) {
    self.keyID = keyID
    self.publicKey = publicKey
  }
}

/// The public keys of version 1 that a device uploads at once (reference 1.6). They replace its one-time keys and its
/// last resort.
public struct PreKeyBundle: Sendable, Hashable {
  /// The account's identity key, in the form of ``PublicPreKey/publicKey``. Only device 1 may change it.
  public let identityKey: String
  /// Keys that the relay hands out once each, the smallest id first. It may be empty; this project's relays take
  /// 1,000.
  public let oneTimeKeys: [PublicPreKey]
  /// The key that the relay hands out, any number of times, when no one-time key is left.
  public let lastResort: PublicPreKey

  /// Makes a bundle. Nothing is checked.
  /// - Parameters:
  ///   - identityKey: the account's identity key, 44 characters.
  ///   - oneTimeKeys: keys that are handed out once each.
  ///   - lastResort: the key for when no other is left.
  public init(identityKey: String, oneTimeKeys: [PublicPreKey], lastResort: PublicPreKey) {
    self.identityKey = identityKey
    self.oneTimeKeys = oneTimeKeys
    self.lastResort = lastResort
  }
}

/// A prekey of version 1 of another device, drawn to begin a conversation with it (reference 1.6).
public struct RemotePreKey: Sendable, Hashable {
  /// The id of the device that the key is of; 1 is the device that registered the number.
  public let deviceID: Int
  /// The number to put into ``OutgoingMessage/registrationID``, so that the relay notices a device that was installed
  /// anew. 0 when the relay tells none.
  public let registrationID: Int
  /// The account's identity key, 44 characters of base64. Nothing proves that it is the account's: compare it over
  /// another channel.
  public let identityKey: String
  /// A one-time key that nobody else is given, or the device's last resort.
  public let preKey: PublicPreKey

  /// Makes a drawn key, for stored conversations and tests.
  /// - Parameters:
  ///   - deviceID: the id of the device.
  ///   - registrationID: the device's registration id; 0 when it is not known.
  ///   - identityKey: the account's identity key, 44 characters.
  ///   - preKey: the key that was drawn.
  public init(deviceID: Int, registrationID: Int, identityKey: String, preKey: PublicPreKey) {
    self.deviceID = deviceID
    self.registrationID = registrationID
    self.identityKey = identityKey
    self.preKey = preKey
  }
}

extension RelayClient {
  /// Uploads public keys of version 1 (reference 1.6). They replace the device's one-time keys and its last resort; a
  /// signed prekey stays, unless the identity key changes.
  /// - Parameter bundle: the keys, with at most 1,000 one-time keys on this project's relays.
  /// - Throws: `.refused`: 401 wrong credentials; 403 a linked device brought another identity key than the
  ///   account's; 415 keys that the relay cannot read.
  public func upload(_ bundle: PreKeyBundle) async throws(RelayClientError) {
    let wire = { (key: PublicPreKey) in
      WireKey(keyId: key.keyID, publicKey: key.publicKey, identityKey: bundle.identityKey)
    }
    let body = WireUpload(lastResortKey: wire(bundle.lastResort), keys: bundle.oneTimeKeys.map(wire))
    _ = try await send(RelayRequest(.put, "/v1/keys", body: body))
  }

  /// Asks how many one-time keys of this device the relay has left (reference 1.6).
  /// - Returns: 0 or more; the last resort does not count.
  /// - Throws: `.refused`: 401 wrong credentials.
  public func preKeyCount() async throws(RelayClientError) -> Int {
    try await send(RelayRequest(.get, "/v1/keys")).decoded(WireCount.self).count
  }

  /// Draws a prekey of version 1 of one device of `number`, or of each active device (reference 1.6).
  ///
  /// A one-time key is used up with the answer, also when the answer is lost. The own number is allowed.
  /// - Parameters:
  ///   - number: the number to begin a conversation with.
  ///   - deviceID: the id of one device; nil for all that are active and have a key.
  ///   - relay: the relay that the directory names for the number, ``Contact/relay``; nil for this client's own.
  /// - Returns: one key for each device, in the order of the relay's answer. Relays answer 404 rather than no key.
  /// - Throws: `.refused`: 404 no such number, device or relay; 413 too many draws; 503 the other relay is away.
  ///   `.invalidArgument` for an empty `relay`.
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
