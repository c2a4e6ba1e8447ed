import Crypto
import RelayCore

/// The key that a device chose for what is pushed to it (reference 2.4).
struct DeviceSignalingKey: Sendable, Equatable {
  /// 32 bytes of AES-256, then 20 of HMAC-SHA256.
  private let secret: SecretBytes

  /// - Parameter text: as uploaded: base64 of either alphabet, padded or not.
  /// - Returns: nil for less than 52 bytes; what is longer is cut.
  init?(_ text: Secret) {
    guard let bytes = Base64.decode(text.value), bytes.count >= Self.byteCount else { return nil }
    secret = SecretBytes(Array(bytes.prefix(Self.byteCount)))
  }

  /// The keys as the ciphers take them: made for some envelopes, and not kept for an idle connection.
  var sealer: EnvelopeSealer {
    EnvelopeSealer(
      encryption: SymmetricKey(data: secret.bytes.prefix(Self.encryptionBytes)),
      authentication: SymmetricKey(data: secret.bytes.dropFirst(Self.encryptionBytes)))
  }

  private static let byteCount = 52
  private static let encryptionBytes = 32
}
