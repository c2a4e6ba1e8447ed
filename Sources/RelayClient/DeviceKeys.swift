import Crypto
import Synchronization

/// A device's keys: makes them, keeps their private halves in memory, opens what was sealed to them.
///
/// The one holder of the private halves: they cannot be read, copied or written out. Safe to use from many tasks.
public final class DeviceKeys: Sendable {
  /// The id that all known clients give their last resort.
  public static let lastResortID: Int64 = 0xFF_FFFF

  /// The public halves, as they are uploaded.
  public let bundle: PreKeyBundle
  private let identityKey: WireKey
  private let lastResort: Curve25519.KeyAgreement.PrivateKey
  private let oneTime: Mutex<[Int64: Curve25519.KeyAgreement.PrivateKey]>

  /// Makes an identity key, one-time keys with the ids 1...`oneTimeKeyCount`, and a last resort.
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

  /// One-time keys that no box has used up.
  public var unusedKeyCount: Int { oneTime.withLock { $0.count } }

  /// Opens `box` and deletes the one-time key that it was sealed to, so that nobody can open it again.
  ///
  /// A box that does not open costs no key: a forger cannot use them up.
  /// - Parameters:
  ///   - sender: whom the relay names as the message's source.
  ///   - recipient: this device.
  /// - Throws: `.malformedBox`, `.unknownKey`, `.notAuthentic`.
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
