import Crypto
import Synchronization

/// A device's keys: makes them, keeps their private halves in memory, and opens boxes that were sealed to them.
///
/// Only this object holds the private halves. They cannot be read, copied or stored, so the keys end with the
/// process: they serve the demo, tests and tools. The object is safe to use from many tasks. The keys are of version
/// 1, without a signature (reference 1.6); ``IdentityKeys`` is for version 2.
public final class DeviceKeys: Sendable {
  /// 16777215, the id that all known clients give their last resort. Relays do not recognise the key by it (reference
  /// 1.6).
  public static let lastResortID: Int64 = 0xFF_FFFF

  /// The public halves, for `RelayClient.upload(_:)`. It never changes: used keys stay in it.
  public let bundle: PreKeyBundle
  private let identityKey: WireKey
  private let lastResort: Curve25519.KeyAgreement.PrivateKey
  private let oneTime: Mutex<[Int64: Curve25519.KeyAgreement.PrivateKey]>

  /// Makes an identity key, one-time keys with the ids 1...`oneTimeKeyCount`, and a last resort.
  /// - Parameter oneTimeKeyCount: 0 or more; a negative count ends the process. This project's relays take 1,000 keys
  ///   in one upload at most.
  public init(oneTimeKeyCount: Int = 100) {
    let identity = Curve25519.KeyAgreement.PrivateKey()
    let lastResort = Curve25519.KeyAgreement.PrivateKey()
    let oneTime = (0..<oneTimeKeyCount).map { (Int64($0 + 1), Curve25519.KeyAgreement.PrivateKey()) }
    self.identityKey = WireKey(identity.publicKey)
    self.lastResort = lastResort
    self.oneTime = Mutex(Dictionary(uniqueKeysWithValues: oneTime))
    self.bundle = PreKeyBundle(
      identityKey: identityKey.text,
      oneTimeKeys: oneTime.map { PublicPreKey(keyID: $0, publicKey: WireKey($1.publicKey).text) },
      lastResort: PublicPreKey(keyID: Self.lastResortID, publicKey: WireKey(lastResort.publicKey).text))
  }

  /// How many one-time keys no opened box has used up. The last resort does not count.
  ///
  /// The relay's supply is smaller by the keys that were drawn and not used: `RelayClient.preKeyCount()` tells it.
  public var unusedKeyCount: Int { oneTime.withLock { $0.count } }

  /// Opens `box` and deletes the one-time key that it was sealed to, so that nobody can open it again.
  ///
  /// A box that does not open costs no key: a forger cannot use them up. The last resort stays.
  /// - Parameters:
  ///   - box: the bytes that ``SealedBox/seal(_:to:of:from:)`` made: the body of a message.
  ///   - sender: the source that the relay names for the message.
  ///   - recipient: this device, with its number.
  /// - Returns: the plaintext, ``SealedBox/overheadBytes`` bytes shorter than the box.
  /// - Throws: `.malformedBox` for bytes that are no box; `.malformedKey` for a box whose ephemeral key is none;
  ///   `.unknownKey` when the key was never made or is used up; `.notAuthentic` when the box was changed or is for
  ///   other parties.
  public func open(_ box: [UInt8], from sender: Correspondent, to recipient: Correspondent)
    throws(SealedBoxError) -> [UInt8]
  {
    let id = try SealedBox.keyID(of: box)
    if id == Self.lastResortID {
      return try SealedBox.open(box, with: lastResort, identityKey: identityKey, from: sender, to: recipient)
    }
    return try oneTime.withLock { (keys) throws(SealedBoxError) in
      guard let key = keys[id] else { throw .unknownKey }
      let plaintext = try SealedBox.open(box, with: key, identityKey: identityKey, from: sender, to: recipient)
      keys[id] = nil
      return plaintext
    }
  }
}
