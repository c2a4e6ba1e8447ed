package import RelayCore

/// The beginning of blobs' URLs in a store of ours: scheme, host, perhaps port and path; no slash at the end.
package struct BlobURLBase: Sendable {
  private let configured: String?
  private let fallback: String

  /// - Parameters:
  ///   - configured: `attachments.public-url`; serves everyone.
  ///   - fallback: for peers, and for clients that name no host, when nothing is configured.
  package init(configured: String?, fallback: String) {
    self.configured = configured
    self.fallback = fallback
  }

  /// For a client: where it has just reached us.
  /// - Parameter authority: of the request; what it says goes back to the one who said it, and to nobody else.
  func forRequest(to authority: String?, isSecure: Bool) -> String {
    if let configured { return configured }
    guard let authority, Self.isPlain(authority) else { return fallback }
    return "\(isSecure ? "https" : "http")://\(authority)"
  }

  var forPeers: String { configured ?? fallback }

  /// Whether `authority` is made of what hosts, addresses and ports are made of: it becomes part of a URL.
  private static func isPlain(_ authority: String) -> Bool {
    (1...260).contains(authority.utf8.count)
      && authority.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"): true
        case UInt8(ascii: "["), UInt8(ascii: "]"): true
        default: false
        }
      }
  }
}

/// Says peers where blobs of our accounts are downloaded.
package struct LocalAttachments: AttachmentLocator {
  private let blobs: any BlobStore
  private let base: BlobURLBase
  private let clock: WallClock

  package init(blobs: any BlobStore, base: BlobURLBase, clock: WallClock) {
    self.blobs = blobs
    self.base = base
    self.clock = clock
  }

  package func downloadURL(of id: AttachmentID) async throws(Problem) -> String {
    blobs.url(for: .download, of: id, base: base.forPeers, now: clock.now())
  }
}
