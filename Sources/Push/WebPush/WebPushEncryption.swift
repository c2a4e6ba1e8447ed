import Crypto
import RelayCore

/// The encryption of WebPush: content coding `aes128gcm` under a key that sender and subscriber agree on (RFC 8188,
/// 8291).
enum WebPushEncryption {
  static let recordSize: UInt32 = 4096
  /// The bytes of a record beside the header (86 bytes), the tag and the delimiter.
  static let plaintextMax = 3993

  /// The subscription cannot be encrypted for.
  struct UnusableSubscription: Error {}

  /// - Parameters:
  ///   - plain: `plaintextMax` bytes at most.
  ///   - fresh: made for this message alone, unless a test knows better.
  /// - Returns: one record with its header.
  static func encrypt(
    _ plain: [UInt8], for subscription: WebPushSubscription, with fresh: WebPushFreshness = .random()
  ) throws(UnusableSubscription) -> [UInt8] {
    let own = Array(fresh.sender.publicKey.x963Representation)
    do {
      let shared = try fresh.sender.sharedSecretFromKeyAgreement(with: subscription.key)
      // RFC 8291, 3.3 and 3.4.
      let material = shared.withUnsafeBytes { secret in
        HKDF<SHA256>.deriveKey(
          inputKeyMaterial: SymmetricKey(data: secret), salt: subscription.authentication,
          info: keyLabel + subscription.publicKey + own, outputByteCount: 32)
      }
      // RFC 8188, 2.2 and 2.3.
      let extracted = HKDF<SHA256>.extract(inputKeyMaterial: material, salt: fresh.salt)
      let key = HKDF<SHA256>.expand(pseudoRandomKey: extracted, info: contentLabel, outputByteCount: 16)
      let nonce = HKDF<SHA256>.expand(pseudoRandomKey: extracted, info: nonceLabel, outputByteCount: 12)
      // 2 ends the last record.
      let sealed = try AES.GCM.seal(
        plain + [2], using: key, nonce: nonce.withUnsafeBytes { try AES.GCM.Nonce(data: $0) })
      var body: [UInt8] = []
      body.reserveCapacity(headerBytes + plain.count + 1 + sealed.tag.count)
      body += fresh.salt
      let size = recordSize
      for shift: UInt32 in [24, 16, 8, 0] { body.append(UInt8(truncatingIfNeeded: size >> shift)) }
      body.append(UInt8(own.count))
      body += own
      body += sealed.ciphertext
      body += sealed.tag
      return body
    } catch {
      throw UnusableSubscription()
    }
  }

  private static let headerBytes = 86
  private static let keyLabel = Array("WebPush: info\0".utf8)
  private static let contentLabel = Array("Content-Encoding: aes128gcm\0".utf8)
  private static let nonceLabel = Array("Content-Encoding: nonce\0".utf8)
}

/// The parts of an encryption that no other message has: RFC 8291 (2 and 3.1) has a key pair generated for each
/// message, and a salt that is used again would repeat a nonce (RFC 8188, 4.3).
struct WebPushFreshness: Sendable {
  let sender: P256.KeyAgreement.PrivateKey
  /// 16 bytes.
  let salt: [UInt8]

  private static let saltBytes = 16
  private static let scalarBytes = 32

  /// The key is made from its scalar. `PrivateKey()` signs and verifies with each key that it makes, and throws half of
  /// them away because their points have no compact form: ten times the work, for nothing that WebPush uses.
  static func random() -> WebPushFreshness {
    while true {
      let bytes = randomBytes(saltBytes + scalarBytes)
      // A scalar of 0, or beyond the curve's order, is none: one of four billion is drawn again.
      guard let sender = try? P256.KeyAgreement.PrivateKey(rawRepresentation: bytes[saltBytes...]) else { continue }
      return WebPushFreshness(sender: sender, salt: Array(bytes[..<saltBytes]))
    }
  }

  /// A word at a time: each is a call of the kernel.
  /// - Parameter count: a multiple of 8.
  private static func randomBytes(_ count: Int) -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count { withUnsafeBytes(of: generator.next() as UInt64) { bytes += $0 } }
    return bytes
  }
}
