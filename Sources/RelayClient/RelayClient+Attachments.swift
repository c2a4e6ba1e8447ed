/// Room for one attachment: its id, which goes to the recipient inside a message, and where its blob is uploaded.
///
/// Whoever knows the id may ask for the blob: encrypt it. Printing one shows neither.
public struct AttachmentSlot: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  public let id: Int64
  /// A URL that anyone may use, once, for a limited time.
  public let uploadURL: String

  public var description: String { "<attachment>" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension RelayClient {
  /// Asks for room for an attachment.
  /// - Throws: `.refused`: 413 too many, or all the room is used that the account may have.
  public func newAttachment() async throws(RelayClientError) -> AttachmentSlot {
    let slot = try await send(RelayRequest(.get, "/v1/attachments/")).decoded(WireSlot.self)
    return AttachmentSlot(id: slot.id, uploadURL: slot.location)
  }

  /// Uploads an encrypted blob, whole. - Throws: `.refused`: 403 the URL has expired, 409 it was used, 413 too large.
  public func upload(_ blob: [UInt8], to slot: AttachmentSlot) async throws(RelayClientError) {
    var request = RelayRequest(.put, "", contentType: Self.blobType)
    request.body = blob
    _ = try await connections.exchange(request, with: slot.uploadURL, as: nil).successful()
  }

  /// Downloads the blob of an attachment.
  /// - Parameters:
  ///   - relay: the relay of the message that named the attachment; nil for this client's own.
  ///   - bytesMax: a larger blob is not read to its end.
  /// - Throws: `.refused`: 404 there is none, or no such relay; `.unexpectedAnswer` for a larger one.
  public func attachment(_ id: Int64, at relay: String? = nil, bytesMax: Int) async throws(RelayClientError) -> [UInt8]
  {
    let path = "/v1/attachments/\(id)" + (try relayQuery(relay))
    let location = try await send(RelayRequest(.get, path)).decoded(WireLocation.self).location
    guard location.hasPrefix("http://") || location.hasPrefix("https://") else {
      throw .unexpectedAnswer(status: 200, reason: "the attachment's location is no URL")
    }
    // A presigned URL may cover the type: clients have always sent it here, too.
    let request = RelayRequest(.get, "", answerBytesMax: bytesMax, contentType: Self.blobType)
    return try await connections.exchange(request, with: location, as: nil).successful().body
  }

  private static let blobType = "application/octet-stream"

  private struct WireSlot: Decodable {
    let id: Int64
    let location: String
  }
  private struct WireLocation: Decodable { let location: String }
}
