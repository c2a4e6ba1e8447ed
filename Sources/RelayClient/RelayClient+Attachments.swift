/// Room for one attachment: an id and a URL for the upload of its blob (reference 1.10).
///
/// The id goes to the recipient inside a message. Every account that knows the id can download the blob, so encrypt
/// it before the upload. Printing or reflecting a value shows neither id nor URL.
public struct AttachmentSlot: Sendable, Hashable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// The attachment's id, up to 63 bits. Parsers that read numbers as doubles lose digits of it.
  public let id: Int64
  /// The URL of the upload. It needs no credentials, and serves for one upload within 3,600 s.
  public let uploadURL: String

  /// Always `<attachment>`.
  public var description: String { "<attachment>" }
  /// Always `<attachment>`.
  public var debugDescription: String { description }
  /// A mirror without children, so that `dump` shows neither id nor URL.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension RelayClient {
  /// Asks for room for one attachment (reference 1.10).
  /// - Returns: an id that no other attachment has, and a URL for the upload.
  /// - Throws: `.refused`: 401 wrong credentials; 413 too many requests, or the account's attachments take all the
  ///   room it may have.
  public func newAttachment() async throws(RelayClientError) -> AttachmentSlot {
    let slot = try await send(RelayRequest(.get, "/v1/attachments/")).decoded(WireSlot.self)
    return AttachmentSlot(id: slot.id, uploadURL: slot.location)
  }

  /// Uploads an encrypted blob in one request, without credentials (reference 1.10).
  ///
  /// The time limit of the client's options counts for the whole upload. After `.timedOut` or `.unreachable` the blob
  /// may have arrived: 409 on a repetition says so.
  /// - Parameters:
  ///   - blob: the encrypted bytes. The relay's operator sets the largest size, by default 100 MiB.
  ///   - slot: room that ``newAttachment()`` gave.
  /// - Throws: `.refused`: 403 the URL has expired, 409 it was used, 413 the blob is too large, the account has no room
  ///   for it, or the account uploads too many at once. `.unexpectedAnswer` for a slot whose URL no request can go to.
  public func upload(_ blob: [UInt8], to slot: AttachmentSlot) async throws(RelayClientError) {
    try Self.demandURL(slot.uploadURL)
    var request = RelayRequest(.put, "", contentType: Self.blobType)
    request.body = blob
    _ = try await connections.exchange(request, with: slot.uploadURL, as: nil).successful()
  }

  /// Downloads the blob of an attachment in two requests: for its URL with credentials, for its bytes without
  /// (reference 1.10).
  /// - Parameters:
  ///   - id: the id that the message told.
  ///   - relay: the relay that the message came from, as in ``IncomingMessage/relay``; nil for this client's own.
  ///   - bytesMax: the largest blob that is read, in bytes. A larger one is not read to its end.
  /// - Returns: the encrypted bytes as they were uploaded.
  /// - Throws: `.refused`: 404 there is no such attachment or relay, or its time is over; 413 too many requests; 503
  ///   the other relay is away. `.unexpectedAnswer` for a larger blob, or a location that is no URL.
  ///   `.invalidArgument` for an empty `relay`.
  public func attachment(_ id: Int64, at relay: String? = nil, bytesMax: Int) async throws(RelayClientError) -> [UInt8]
  {
    let path = "/v1/attachments/\(id)" + (try relayQuery(relay))
    let location = try await send(RelayRequest(.get, path)).decoded(WireLocation.self).location
    try Self.demandURL(location)
    // A presigned URL may cover the type: clients have always sent it here, too.
    let request = RelayRequest(.get, "", answerBytesMax: bytesMax, contentType: Self.blobType)
    return try await connections.exchange(request, with: location, as: nil).successful().body
  }

  /// The relay, or another one behind it, has chosen the URL.
  private static func demandURL(_ url: String) throws(RelayClientError) {
    guard RequestURL(url) != nil else {
      throw .unexpectedAnswer(status: 200, reason: "the attachment's location is no URL")
    }
  }

  private static let blobType = "application/octet-stream"

  private struct WireSlot: Decodable {
    let id: Int64
    let location: String
  }
  private struct WireLocation: Decodable { let location: String }
}
