import NIOCore
import NIOHTTP1

/// A request to a peer. Its path may hold numbers: it is never logged.
struct PeerRequest: Sendable {
  let method: HTTPMethod
  let path: String
  /// JSON; nil for none.
  var body: [UInt8]?
  /// The entity tag of what we have seen.
  var ifNoneMatch: String?
  /// How much of an answer is read.
  var answerBytesMax = PeerRequest.smallAnswerBytesMax

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
}

/// Why a peer gave no answer. Texts name neither path nor body.
enum PeerFailure: Error, Equatable, CustomStringConvertible {
  /// As many requests as one peer may hold are under way.
  case busy
  case unreachable(reason: String)
  /// The TLS handshake failed, or the peer hung up after it: what a refused certificate looks like in TLS 1.3.
  case handshake(reason: String)
  case timedOut
  case answerTooLarge
  case cancelled
  /// The client was replaced before the request began: the next one takes it.
  case retired

  var description: String {
    switch self {
    case .busy: "too many requests are under way to it"
    case .unreachable(let reason): "no connection: \(reason)"
    case .handshake(let reason): "no TLS connection: \(reason)"
    case .timedOut: "no answer in time"
    case .answerTooLarge: "its answer was too large"
    case .cancelled, .retired: "the request was cancelled"
    }
  }
}
