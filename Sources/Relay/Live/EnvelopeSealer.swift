import Crypto
import CryptoExtras
import FoundationEssentials
package import RelayCore
import SwiftProtobuf
import WireMessages

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

/// Encrypts envelopes for one device.
struct EnvelopeSealer {
  let encryption: SymmetricKey
  let authentication: SymmetricKey

  /// `version || iv || AES-256-CBC of the push signal || 10 bytes of HMAC-SHA256 over all before` (reference 2.4).
  /// - Parameter iv: 16 random bytes, never used twice under one key.
  func seal(_ envelope: Envelope, iv: AES._CBC.IV = AES._CBC.IV()) throws -> Data {
    let signal: [UInt8] = try envelope.pushSignal.serializedBytes()
    let ciphertext = try AES._CBC.encrypt(signal, using: encryption, iv: iv)
    var sealed = Data(capacity: 1 + 16 + ciphertext.count + Self.macBytes)
    sealed.append(Self.version)
    sealed.append(contentsOf: iv)
    sealed.append(ciphertext)
    let code = HMAC<SHA256>.authenticationCode(for: sealed, using: authentication)
    code.withUnsafeBytes { sealed.append(contentsOf: $0.prefix(Self.macBytes)) }
    return sealed
  }

  private static let version: UInt8 = 1
  private static let macBytes = 10
}

extension Envelope {
  /// The bytes that are pushed to a device whose signaling key is `key`: as `EnvelopeSealer.seal`.
  /// - Returns: nil for a key that cannot be used.
  package func sealed(underSignalingKey key: Secret) -> [UInt8]? {
    guard let sealer = DeviceSignalingKey(key)?.sealer else { return nil }
    // Nothing in an envelope can make it fail; a push without content is as good.
    return (try? sealer.seal(self)).map(Array.init)
  }
}

extension Envelope {
  /// Reference 2.9. Its type is always written, also 0; a notice has no message.
  fileprivate var pushSignal: Textsecure_PushSignal {
    var signal = Textsecure_PushSignal()
    signal.type = UInt32(type.rawValue)
    signal.source = source.account.e164
    if let relay { signal.relay = relay.text }
    signal.timestamp = UInt64(bitPattern: timestamp.millis)
    if let message { signal.message = Data(message) }
    signal.sourceDevice = UInt32(source.device.value)
    if let content { signal.content = Data(content) }
    return signal
  }
}
