import NIOCore
import NIOHTTP1
import RelayCore

/// A request to a peer. Its path may hold numbers: it is never logged.
struct PeerRequest: Sendable {
  let method: HTTPMethod
  let path: String
  /// nil for none.
  var body: [UInt8]?
  var contentType = "application/json"
  /// The value of the header `crossingsHeader` (docs/federation-wire.md, "Tags and marks").
  var crossings: String?
  /// The entity tag of what we have seen.
  var ifNoneMatch: String?
  /// Whether it carries many hand-overs.
  var isBatch = false
  /// How much of an answer is read.
  var answerBytesMax = PeerRequest.smallAnswerBytesMax
  /// The one of the request that it is made for; another one where it is made for many.
  var id = RequestID.current ?? RequestID()
  /// When whoever asked has waited long enough, where that is before the request's own time-out.
  var deadline: ContinuousClock.Instant?

  static let crossingsHeader = "Relay-Crossings"
  /// Device lists, counts and refusals.
  static let smallAnswerBytesMax = 64 << 10

  static func get(_ path: String) -> PeerRequest { PeerRequest(method: .GET, path: path) }
  static func put(_ path: String, _ body: [UInt8]? = nil) -> PeerRequest {
    PeerRequest(method: .PUT, path: path, body: body)
  }
}

struct PeerAnswer: Sendable {
  let status: Int
  let entityTag: String?
  let retryAfterSeconds: Int?
  let body: ByteBuffer

  /// The code of a refusal, which is text that begins with it; nil for what is none that we know.
  var problemKind: Problem.Kind? {
    let text = String(decoding: body.readableBytesView.prefix(64), as: UTF8.self)
    return Problem.Kind(rawValue: String(text.prefix { $0 != ":" }))
  }

  /// Whether the peer says that we are no active peer of it.
  var isPeerRefusal: Bool { status == 403 && problemKind == .peerRefused }
}
