import Crypto
package import RelayCore

/// Signs the URLs of blobs in a folder of ours, and checks them.
///
/// A URL is `BASE/v1/attachments/blobs/ID?expires=SECONDS&signature=HEX`. The signature is HMAC-SHA256 over what the
/// URL is for, the id and the end, under a key that all processes of the operator share: any of them honours what
/// another has given out.
package struct BlobURLSigner: Sendable {
  private let key: SymmetricKey

  /// - Parameter key: 32 random bytes.
  package init(key: SecretBytes) { self.key = SymmetricKey(data: key.bytes) }

  /// The key of this operator, drawn and stored on first use, sealed where there is an encryption key.
  package init(store: any ServerSecretStore) async throws(StoreError) {
    let name = ServerKeyName.attachmentURLs
    self.init(
      key: try await store.serverKey(name) {
        SecretBytes((0..<name.byteCount).map { _ in UInt8.random(in: .min ... .max) })
      })
  }

  static let path = "/v1/attachments/blobs/"

  func url(for use: BlobUse, of id: AttachmentID, base: String, now: Timestamp) -> String {
    let end = now.adding(BlobTimes.urlLife).millis / 1000
    return "\(base)\(Self.path)\(id.text)?expires=\(end)&signature=\(signature(use, id, end))"
  }

  /// - Parameters:
  ///   - expires, signature: as they stand in the query.
  ///   - use: what the URL is being used for.
  /// - Throws: `.urlRefused`, whatever is wrong with it.
  func check(_ id: AttachmentID, expires: String?, signature: String?, for use: BlobUse, now: Timestamp)
    throws(Problem)
  {
    guard let expires, let signature, (1...15).contains(expires.utf8.count), let end = Int64(expires),
      constantTimeEquals(Array(signature.utf8), Array(self.signature(use, id, end).utf8)), now.millis <= end * 1000
    else { throw Problem(.urlRefused) }
  }

  /// Lower-case hex. An upload's says nothing about the download.
  private func signature(_ use: BlobUse, _ id: AttachmentID, _ end: Int64) -> String {
    let method =
      switch use {
      case .upload: "PUT"
      case .download: "GET"
      }
    let code = HMAC<SHA256>.authenticationCode(for: Array("\(method)\n\(id.text)\n\(end)".utf8), using: key)
    return Hex.encode(code)
  }
}

enum Hex {
  /// Lower case.
  static func encode(_ bytes: some Sequence<UInt8>) -> String {
    var text = ""
    for byte in bytes { text += (byte < 16 ? "0" : "") + String(byte, radix: 16) }
    return text
  }
}
