import FoundationEssentials
import NIOCore
import RelayHTTP

/// The content of one message of a client.
enum SocketFrame {
  /// About a delivery: it has arrived, or the client could not take it.
  case acknowledgement(UInt64)
  case refusal(UInt64)
  case call(SocketCall)
  case ping
  /// Nothing that anything follows from.
  case nothing
  case malformed(SocketClose)
}

/// A request over a socket. Its path and headers may hold what is private, its body does.
struct SocketCall: Sendable {
  let verb: String
  let path: String
  /// `name:value`.
  let headers: [String]
  let body: ByteBuffer?
  /// nil: no answer is wanted (reference 1.12.4).
  let id: UInt64?

  /// As HTTP has it, too.
  static let headersMax = 100

  /// About the bytes that it holds.
  var byteCount: Int {
    verb.utf8.count + path.utf8.count + headers.reduce(0) { $0 + $1.utf8.count } + (body?.readableBytes ?? 0)
  }

  /// Clients say every few seconds that they are still there.
  var isKeepAlive: Bool { verb == "GET" && Self.keepAlives.contains(path) }
  /// A trailing slash makes no difference (reference 1.1).
  private static let keepAlives: Set<String> = [
    "/v1/keepalive", "/v1/keepalive/", "/v1/keepalive/provisioning", "/v1/keepalive/provisioning/",
  ]
}

/// The answer to a `SocketCall`.
struct SocketAnswer: Sendable {
  let status: Int
  let message: String
  var headers: [String] = []
  var body: ByteBuffer?

  static let ok = SocketAnswer(status: 200, message: "OK")
  /// The process stops.
  static let unavailable = SocketAnswer(status: 503, message: "Service Unavailable")
}

/// How deliveries, acknowledgements and requests are written (reference 1.12).
protocol SocketDialect: Sendable {
  /// Takes a message of the client apart.
  func read(_ message: SocketMessage) -> SocketFrame
  /// An id for a delivery that follows the one under `last`.
  func deliveryID(after last: UInt64?, isTaken: (UInt64) -> Bool) -> UInt64
  /// - Parameter sealed: an envelope, encrypted under the signaling key.
  func delivery(of sealed: Data, id: UInt64) throws -> SocketMessage
  /// - Returns: nil in a dialect that has no requests.
  func answer(_ answer: SocketAnswer, to id: UInt64) throws -> SocketMessage?
  /// The answer to a ping of the dialect; nil in a dialect that has none.
  var pong: SocketMessage? { get }
}
