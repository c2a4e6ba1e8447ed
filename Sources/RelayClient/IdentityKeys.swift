// An account's identity key, which vouches for its devices' signed prekeys.

import Crypto
import RelayCore

/// An identity key with its private half: makes the signatures that signed prekeys carry.
///
/// The private half is an Ed25519 seed. The scalar that follows from it is an X25519 private key, too, whose public key
/// is another form of the same point: that form is the identity key. A signature is the seed's Ed25519 signature, with
/// the sign of the Edwards form, which the identity key does not show, in its last bit. So do the protocol's clients
/// verify it. Printing one shows neither half.
public struct IdentityKeys: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  /// 33 bytes, 0x05 and a Curve25519 key, in base64 without padding: 44 characters.
  public let publicKey: String
  private let signing: Curve25519.Signing.PrivateKey

  /// Those of `seed`, 32 bytes that nobody can guess.
  /// - Throws: `.invalidArgument` when it has another length.
  public init(seed: [UInt8] = IdentityKeys.randomSeed()) throws(RelayClientError) {
    do {
      signing = try Curve25519.Signing.PrivateKey(rawRepresentation: seed)
      let scalar = SHA512.hash(data: seed).prefix(Self.seedByteCount)
      publicKey = WireKey(try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: Array(scalar)).publicKey).text
    } catch {
      throw .invalidArgument("the seed of identity keys has 32 bytes")
    }
  }

  /// 32 bytes of the system's random generator.
  public static func randomSeed() -> [UInt8] { randomBytes(seedByteCount) }

  /// Vouches for a prekey.
  /// - Parameter publicKey: the prekey's, as it is uploaded: base64 of what is signed.
  /// - Returns: 64 bytes in base64 without padding: 86 characters.
  /// - Throws: `.invalidArgument` when `publicKey` is no base64.
  public func signature(of publicKey: String) throws(RelayClientError) -> String {
    guard let message = Base64.decode(publicKey) else { throw .invalidArgument("a public key is written in base64") }
    return Base64.encode(try signature(of: message), padded: false)
  }

  /// - Returns: 64 bytes.
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

  public var description: String { "<identity keys>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
