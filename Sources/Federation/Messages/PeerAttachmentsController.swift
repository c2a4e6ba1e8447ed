import Hummingbird
import RelayCore
import RelayHTTP

/// Tells peers where they can download the blobs of our accounts' attachments (reference 1.13.2).
struct PeerAttachmentsController: Sendable {
  let locator: any AttachmentLocator

  func addRoutes(to group: some RouterMethods<PeerContext>) {
    group.resource("v1/federation/attachment/{id}", [(.get, location)])
  }

  private func location(_ request: Request, _ context: PeerContext) async throws(Problem) -> Response {
    guard let id = AttachmentID(text: try context.segment("id")) else { throw Problem(.notFound) }
    guard let location = AttachmentLocation(try await locator.downloadURL(of: id)) else {
      throw Problem(.internalError, reason: "the attachment store's URL is none that a peer would take")
    }
    return .json(location.json)
  }
}

/// `{"location": URL}`: where a blob can be downloaded, as relays tell each other (reference 1.13.2).
struct AttachmentLocation: Sensitive, Sendable, Equatable {
  static let kind: StaticString = "attachment URL"
  /// Absolute, http or https, a host without a user, a port that there is, printable ASCII, at most `urlBytesMax`
  /// bytes. Anyone who knows it can download the blob.
  let url: String

  /// - Returns: nil for anything else: what a peer says goes to our clients, and into a header of theirs.
  init?(_ url: String) {
    guard url.utf8.count <= Self.urlBytesMax, url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
      let scheme = ["https://", "http://"].first(where: { url.prefix($0.count).lowercased() == $0 }),
      Self.isAuthority(url.dropFirst(scheme.count).prefix { !"/?#".contains($0) })
    else { return nil }
    self.url = url
  }

  /// A client may end at a port that there is not.
  private static func isAuthority(_ text: Substring) -> Bool {
    guard let first = text.first, first != ":", !text.contains("@") else { return false }
    // An IPv6 address has brackets.
    let tail = text[(text.lastIndex(of: "]") ?? text.startIndex)...]
    guard let colon = tail.firstIndex(of: ":") else { return true }
    let digits = tail[tail.index(after: colon)...]
    return digits.isEmpty || digits.utf8.allSatisfy { (0x30...0x39).contains($0) } && (UInt16(digits) ?? 0) > 0
  }

  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("location")
    writer.string(url)
    writer.endObject()
    return writer.bytes
  }

  static func decode(_ json: RawSpan) throws(JSONError) -> AttachmentLocation {
    let url = try JSONReader.property("location", of: json) { reader throws(JSONError) in try reader.string() }
    guard let location = url.flatMap({ AttachmentLocation($0) }) else { throw .wrongShape }
    return location
  }

  /// A presigned URL with a session token takes about 2 KiB.
  private static let urlBytesMax = 4 << 10
}
