import Crypto
import CryptoExtras
import Foundation
import TestSupport

/// A client's encryption of an attachment before it leaves the client (reference 1.10): IV, AES-256-CBC with PKCS#7
/// padding, and HMAC-SHA256 over both.
struct BlobCipher {
  private let encryption: SymmetricKey
  private let authentication: SymmetricKey

  /// - Parameter key: 32 bytes for AES, 32 for the MAC.
  init(key: [UInt8]) {
    encryption = SymmetricKey(data: key.prefix(32))
    authentication = SymmetricKey(data: key.dropFirst(32))
  }

  func seal(_ plaintext: [UInt8], iv: [UInt8]) throws -> [UInt8] {
    let ciphertext = try AES._CBC.encrypt(plaintext, using: encryption, iv: .init(ivBytes: iv))
    let body = iv + Array(ciphertext)
    return body + Array(HMAC<SHA256>.authenticationCode(for: body, using: authentication))
  }

  func open(_ blob: [UInt8]) throws -> [UInt8] {
    let (body, mac) = (blob.dropLast(32), blob.suffix(32))
    guard HMAC<SHA256>.isValidAuthenticationCode(mac, authenticating: body, using: authentication) else {
      throw TestFailure("the blob's MAC is wrong")
    }
    return Array(
      try AES._CBC.decrypt(body.dropFirst(16), using: encryption, iv: .init(ivBytes: Array(body.prefix(16)))))
  }
}

/// One of the published vectors `attachment_blobs`, in hex.
struct BlobVector: Decodable {
  let keyHex: String
  let ivHex: String
  let plaintextHex: String
  let blobHex: String

  /// The copy that the tests of the codecs use.
  static func load() throws -> [BlobVector] {
    struct All: Decodable { let attachmentBlobs: [BlobVector] }
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../RelayCoreTests/Vectors/textsecure-vectors.json")
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try decoder.decode(All.self, from: Data(contentsOf: file)).attachmentBlobs
  }

  static func bytes(_ hex: String) throws -> [UInt8] {
    let digits = hex.compactMap(\.hexDigitValue)
    guard digits.count == hex.count, digits.count.isMultiple(of: 2) else { throw TestFailure("not hex") }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }
}
