import Crypto
package import RelayCore

/// Signatures by X25519 keys, as the protocol's clients make them: an Ed25519 signature whose last bit is the sign of
/// the key's Edwards form.
enum XEdDSA {
  /// - Parameters:
  ///   - signature: 64 bytes; others are no signature.
  ///   - key: the Montgomery form, 32 bytes; others are no key.
  static func isValid(_ signature: [UInt8], of message: [UInt8], by key: some Collection<UInt8>) -> Bool {
    guard signature.count == signatureByteCount, let last = signature.last,
      let edwards = Curve25519Point.edwards(u: key, isNegative: last & 0x80 != 0)
    else { return false }
    var plain = signature
    plain[signatureByteCount - 1] = last & 0x7F
    do {
      return try Curve25519.Signing.PublicKey(rawRepresentation: edwards).isValidSignature(plain, for: message)
    } catch {
      return false  // Not a point of the curve.
    }
  }

  private static let signatureByteCount = 64
}

extension SignedPreKey {
  /// Whether the account's identity key vouches for this prekey: both are public keys, and it signed this one's bytes
  /// (reference 1.7, Part 6 no. 10).
  package func isSigned(by identityKey: String) -> Bool {
    guard let identity = WirePublicKey(identityKey), let own = WirePublicKey(publicKey),
      let signature = Base64.decode(signature)
    else { return false }
    return XEdDSA.isValid(signature, of: own.bytes, by: identity.bytes.dropFirst())
  }
}

/// A public key as clients write it: base64 of 0x05 and 32 bytes (reference 1.6).
private struct WirePublicKey {
  let bytes: [UInt8]

  init?(_ text: String) {
    guard let bytes = Base64.decode(text), bytes.count == 1 + Curve25519Point.byteCount, bytes[0] == 0x05 else {
      return nil
    }
    self.bytes = bytes
  }
}
