import Crypto
import Foundation
import RelayCore

/// Encrypts one file of a directory whose store is sealed: AES-256-GCM over chunks, under a key of the file's own, each
/// chunk bound to its place. A file that was cut, altered, or put together of others does not open.
struct SnapshotCipher: Sendable {
  /// The bytes of each chunk before it is encrypted. The last chunk before the tail holds the rest.
  static let chunkBytes = 1 << 20
  static let tagBytes = 16
  static let saltBytes = 32
  /// The number of the file's tail.
  static let tailNumber = UInt64.max

  private let key: SymmetricKey

  /// - Parameters:
  ///   - fileKey: as `DirectoryFeedStore.directoryFileKey`.
  ///   - salt: `saltBytes` at random; no two files have the same.
  init(_ fileKey: SecretBytes, salt: [UInt8]) {
    key = HKDF<SHA256>.deriveKey(
      inputKeyMaterial: SymmetricKey(data: fileKey.bytes), salt: salt, info: Array("relay directory snapshot".utf8),
      outputByteCount: 32)
  }

  static func newSalt() -> [UInt8] { (0..<saltBytes).map { _ in UInt8.random(in: .min ... .max) } }

  /// - Parameter number: each is used once for a file.
  /// - Returns: as many bytes, and the tag.
  func seal(_ chunk: ArraySlice<UInt8>, number: UInt64) throws(SnapshotFailure) -> [UInt8] {
    do {
      let box = try AES.GCM.seal(chunk, using: key, nonce: Self.nonce(number))
      return Array(box.ciphertext) + Array(box.tag)
    } catch {
      throw .unusable("it could not be encrypted")
    }
  }

  /// - Parameter sealed: as `seal` returned it.
  func open(_ sealed: [UInt8], number: UInt64) throws(SnapshotFailure) -> [UInt8] {
    do {
      let box = try AES.GCM.SealedBox(
        nonce: Self.nonce(number), ciphertext: sealed.dropLast(Self.tagBytes), tag: sealed.suffix(Self.tagBytes))
      return Array(try AES.GCM.open(box, using: key))
    } catch {
      throw .unusable("it was altered, or encrypted under another key")
    }
  }

  private static func nonce(_ number: UInt64) throws -> AES.GCM.Nonce {
    var bytes: [UInt8] = [0, 0, 0, 0]
    bytes.append(littleEndian: number)
    return try AES.GCM.Nonce(data: bytes)
  }
}
