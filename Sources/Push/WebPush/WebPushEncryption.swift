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
  ///   - sender: a fresh key for each message, unless a test knows better.
  ///   - salt: 16 fresh bytes.
  /// - Returns: one record with its header.
  static func encrypt(
    _ plain: [UInt8], for subscription: WebPushSubscription, sender: P256.KeyAgreement.PrivateKey = .init(),
    salt: [UInt8] = .random16()
  ) throws(UnusableSubscription) -> [UInt8] {
    let own = Array(sender.publicKey.x963Representation)
    do {
      let receiver = try P256.KeyAgreement.PublicKey(x963Representation: subscription.publicKey)
      let shared = try sender.sharedSecretFromKeyAgreement(with: receiver)
      // RFC 8291, 3.3 and 3.4.
      let material = shared.withUnsafeBytes { secret in
        HKDF<SHA256>.deriveKey(
          inputKeyMaterial: SymmetricKey(data: secret), salt: subscription.authentication,
          info: Array("WebPush: info\0".utf8) + subscription.publicKey + own, outputByteCount: 32)
      }
      // RFC 8188, 2.2 and 2.3.
      let key = HKDF<SHA256>.deriveKey(
        inputKeyMaterial: material, salt: salt, info: Array("Content-Encoding: aes128gcm\0".utf8), outputByteCount: 16)
      let nonce = HKDF<SHA256>.deriveKey(
        inputKeyMaterial: material, salt: salt, info: Array("Content-Encoding: nonce\0".utf8), outputByteCount: 12)
      // 2 ends the last record.
      let sealed = try AES.GCM.seal(
        plain + [2], using: key, nonce: nonce.withUnsafeBytes { try AES.GCM.Nonce(data: $0) })
      let size = recordSize
      var body = salt
      body += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: size >> $0) }
      body.append(UInt8(own.count))
      return body + own + sealed.ciphertext + sealed.tag
    } catch {
      throw UnusableSubscription()
    }
  }
}

extension [UInt8] {
  static func random16() -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }
}
