import Crypto
import CryptoExtras
import FoundationEssentials
package import RelayCore
import SwiftProtobuf
import WireMessages

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
