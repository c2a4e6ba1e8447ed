// An account's identity key, which vouches for its devices' signed prekeys.

import Crypto
import RelayCore

/// An identity key with its private half: makes the signatures of signed prekeys (reference 1.7).
///
/// The private half is an Ed25519 seed. The scalar that is derived from the seed is also an X25519 private key. Its
/// public key is another form of the same point, and that form is the identity key. A signature is the seed's Ed25519
/// signature; its last bit holds the sign of the Edwards form, which the identity key does not show. The protocol's
/// clients verify signatures of this form (XEdDSA). Printing or reflecting a value shows neither half.
public struct IdentityKeys: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// The identity key as it is uploaded: 33 bytes, 0x05 and a Curve25519 key, in base64 without padding, 44
  /// characters.
  public let publicKey: String
  private let signing: Curve25519.Signing.PrivateKey

  /// Derives the keys from a seed. The same seed gives the same keys.
  /// - Parameter seed: 32 bytes that nobody can guess. Store them where the account's secrets are: the value does not
  ///   give them back.
  /// - Throws: `.invalidArgument` when the seed has another length.
  public init(seed: [UInt8] = IdentityKeys.randomSeed()) throws(RelayClientError) {
    do {
      signing = try Curve25519.Signing.PrivateKey(rawRepresentation: seed)
      let scalar = SHA512.hash(data: seed).prefix(Self.seedByteCount)
      publicKey = WireKey(try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: Array(scalar)).publicKey).text
    } catch {
      throw .invalidArgument("the seed of identity keys has 32 bytes")
    }
  }

  /// Draws a seed for ``init(seed:)``.
  /// - Returns: 32 bytes of the system's random generator.
  public static func randomSeed() -> [UInt8] { randomBytes(seedByteCount) }

  /// Signs the public half of a prekey.
  /// - Parameter publicKey: base64 of the bytes to sign, as in ``SignedPublicPreKey/publicKey``.
  /// - Returns: 64 bytes in base64 without padding, 86 characters, for ``SignedPublicPreKey/signature``.
  /// - Throws: `.invalidArgument` when `publicKey` is not base64.
  public func signature(of publicKey: String) throws(RelayClientError) -> String {
    guard let message = Base64.decode(publicKey) else { throw .invalidArgument("a public key is written in base64") }
    return Base64.encode(try signature(of: message), padded: false)
  }

  /// Signs bytes.
  /// - Parameter message: the bytes to sign, any number of them.
  /// - Returns: 64 bytes.
  /// - Throws: `.invalidArgument` when the library for cryptography fails. No message is known with which it does.
  public func signature(of message: [UInt8]) throws(RelayClientError) -> [UInt8] {
    do {
      var signature = Array(try signing.signature(for: message))
      let edwards = Array(signing.publicKey.rawRepresentation)
      signature[signature.count - 1] |= edwards[edwards.count - 1] & 0x80
      return signature
    } catch {
      throw .invalidArgument("the message cannot be signed")  // Nothing in it can be the reason.
    }
  }

  private static let seedByteCount = 32

  /// Always `<identity keys>`.
  public var description: String { "<identity keys>" }
  /// Always `<identity keys>`.
  public var debugDescription: String { description }
  /// A mirror without children, so that `dump` shows no secret.
  public var customMirror: Mirror { Mirror(self, children: []) }
}
