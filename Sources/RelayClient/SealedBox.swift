// The end-to-end message format of `relay demo`.

import Crypto
import Foundation
import RelayCore

/// Seals a message to a drawn prekey, so that only the device that made the key can read it.
///
/// This is the demo's own format and no ratchet: there is no session. A messenger should use a reviewed protocol in
/// its place, such as X3DH with the Double Ratchet.
///
/// - A box that was sealed to a one-time key cannot be read once it was opened and the key was deleted. A box that
///   was sealed to the last resort stays readable as long as that key lives.
/// - The sender is bound and not proved. Everyone who can draw a prekey can seal a box, and only the relays say who
///   did.
/// - Prekeys of version 1 carry no signature, so a dishonest relay could hand out keys of its own.
///
/// Layout, version 1, numbers big-endian:
///
/// | bytes | what |
/// |---|---|
/// | 1 | version: 0x01 |
/// | 8 | id of the prekey |
/// | 33 | ephemeral public key: 0x05, then 32 bytes of X25519 |
/// | n | ciphertext, as long as the plaintext: AES-256-GCM |
/// | 16 | tag, over the ciphertext and the 42 bytes before it |
///
/// Key (32 bytes) and nonce (12 bytes) are HKDF-SHA256 of the X25519 secret of the ephemeral key and the prekey.
/// Salt: ephemeral public key, prekey. Info: `relay sealed box 1`, prekey id (8 bytes), recipient's identity key
/// (33), then for sender and recipient each: length of the number (1), the number with its `+`, device id (4). The
/// ephemeral key is used once, hence so are key and nonce.
public enum SealedBox {
  /// The number of bytes by which a box is longer than its plaintext: 58.
  public static let overheadBytes = headerBytes + tagBytes

  /// Seals a plaintext to one device, with a fresh ephemeral key.
  /// - Parameters:
  ///   - plaintext: any bytes, also none.
  ///   - key: a key that was drawn for this box alone. It names the recipient's device.
  ///   - recipient: the number that the key was drawn of.
  ///   - sender: the device that the recipient's relay will name as the source. ``DeviceKeys/open(_:from:to:)`` fails
  ///     with another one.
  /// - Returns: the box, ``overheadBytes`` bytes longer than the plaintext.
  /// - Throws: `.malformedKey` when the prekey or the identity key is not a usable public key.
  public static func seal(
    _ plaintext: some Collection<UInt8>, to key: RemotePreKey, of recipient: PhoneNumber, from sender: Correspondent
  ) throws(SealedBoxError) -> [UInt8] {
    let ephemeral = Curve25519.KeyAgreement.PrivateKey()
    let parties = Parties(
      keyID: key.preKey.keyID, preKey: try WireKey(text: key.preKey.publicKey),
      identityKey: try WireKey(text: key.identityKey), ephemeral: WireKey(ephemeral.publicKey), sender: sender,
      recipient: Correspondent(recipient, deviceID: key.deviceID))
    let header = parties.header
    do {
      let secret = try parties.secret(of: ephemeral, with: parties.preKey)
      let box = try AES.GCM.seal(
        Array(plaintext), using: secret.key, nonce: secret.nonce, authenticating: header)
      return header + box.ciphertext + box.tag
    } catch {
      throw .malformedKey  // Nothing else can fail.
    }
  }

  /// The id of the prekey that `box` was sealed to.
  /// - Throws: `.malformedBox` when it is no box of version 1.
  static func keyID(of box: [UInt8]) throws(SealedBoxError) -> Int64 {
    guard box.count >= overheadBytes, box[0] == version else { throw .malformedBox }
    let id = box[1..<9].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard let id = Int64(exactly: id) else { throw .malformedBox }
    return id
  }

  /// Opens `box` with the private half of the prekey that it names.
  static func open(
    _ box: [UInt8], with privateKey: Curve25519.KeyAgreement.PrivateKey, identityKey: WireKey,
    from sender: Correspondent,
    to recipient: Correspondent
  ) throws(SealedBoxError) -> [UInt8] {
    let parties = Parties(
      keyID: try keyID(of: box), preKey: WireKey(privateKey.publicKey), identityKey: identityKey,
      ephemeral: try WireKey(bytes: box[9..<headerBytes]), sender: sender, recipient: recipient)
    do {
      let secret = try parties.secret(of: privateKey, with: parties.ephemeral)
      let sealed = try AES.GCM.SealedBox(
        nonce: secret.nonce, ciphertext: box[headerBytes..<(box.count - tagBytes)], tag: box.suffix(tagBytes))
      return Array(try AES.GCM.open(sealed, using: secret.key, authenticating: parties.header))
    } catch {
      throw .notAuthentic
    }
  }

  private static let version: UInt8 = 1
  private static let headerBytes = 1 + 8 + WireKey.byteCount
  private static let tagBytes = 16

  /// All that key, nonce and tag depend on.
  private struct Parties {
    let keyID: Int64
    let preKey: WireKey
    let identityKey: WireKey
    let ephemeral: WireKey
    let sender: Correspondent
    let recipient: Correspondent

    var header: [UInt8] { [version] + bigEndian(UInt64(bitPattern: keyID), 8) + ephemeral.bytes }

    /// The key and nonce that `ours` and `theirs` share: the ephemeral key and the prekey, either way round.
    func secret(of ours: Curve25519.KeyAgreement.PrivateKey, with theirs: WireKey) throws
      -> (key: SymmetricKey, nonce: AES.GCM.Nonce)
    {
      let shared = try ours.sharedSecretFromKeyAgreement(with: theirs.publicKey())
      // With a point of small order everybody knows the secret: all zeros (RFC 7748, 6.1).
      let isZero = shared.withUnsafeBytes { constantTimeEquals(Array($0), [UInt8](repeating: 0, count: 32)) }
      guard !isZero else { throw SealedBoxError.malformedKey }
      let derived = shared.hkdfDerivedSymmetricKey(
        using: SHA256.self, salt: ephemeral.bytes + preKey.bytes, sharedInfo: info, outputByteCount: 44)
      return try derived.withUnsafeBytes { bytes in
        (SymmetricKey(data: bytes.prefix(32)), try AES.GCM.Nonce(data: bytes.suffix(12)))
      }
    }

    private var info: [UInt8] {
      var info = Array("relay sealed box 1".utf8) + bigEndian(UInt64(bitPattern: keyID), 8) + identityKey.bytes
      for party in [sender, recipient] {
        let number = Array(party.number.e164.utf8)
        info += [UInt8(number.count)] + number + bigEndian(UInt64(UInt32(truncatingIfNeeded: party.deviceID)), 4)
      }
      return info
    }
  }

  private static func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
    (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
  }
}

/// The reason why a box could not be sealed or opened. It names nothing of what is inside.
public enum SealedBoxError: Error, Sendable, Equatable {
  /// A public key is not 0x05 and 32 bytes of a usable point.
  case malformedKey
  /// The bytes are not a box of this version, or are too short for one.
  case malformedBox
  /// The box was sealed to a key that this device never had or has used up.
  case unknownKey
  /// The box was sealed for another device, by another device, or changed on the way.
  case notAuthentic
}

/// A public key as the wire carries it: 0x05, then 32 bytes.
struct WireKey: Sendable, Equatable {
  static let byteCount = 33
  /// 33 of them.
  let bytes: [UInt8]

  init(_ key: Curve25519.KeyAgreement.PublicKey) { bytes = [Self.type] + key.rawRepresentation }

  init(bytes: some Collection<UInt8>) throws(SealedBoxError) {
    guard bytes.count == Self.byteCount, bytes.first == Self.type else { throw .malformedKey }
    self.bytes = Array(bytes)
  }

  init(text: String) throws(SealedBoxError) {
    guard let bytes = Base64.decode(text) else { throw .malformedKey }
    try self.init(bytes: bytes)
  }

  /// 44 characters.
  var text: String { Base64.encode(bytes, padded: false) }

  func publicKey() throws -> Curve25519.KeyAgreement.PublicKey {
    try Curve25519.KeyAgreement.PublicKey(rawRepresentation: bytes.dropFirst())
  }

  private static let type: UInt8 = 5
}
