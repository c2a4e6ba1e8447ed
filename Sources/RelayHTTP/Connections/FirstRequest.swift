import NIOCore

/// The first bytes of a connection over HTTP/1.1, until their owner is known: the router, or the door of WebSockets,
/// by the request's path.
///
/// Only a request for the door is held until its head is whole. For all others, only the path is waited for. The
/// decision depends on the bytes alone, not on the pieces in which they come.
struct FirstRequest {
  enum Step {
    case more
    /// Not for the door: all that came, as it came.
    case elsewhere(ByteBuffer)
    /// The whole head of a request for the door, and what came behind it.
    case head(ByteBuffer, rest: ByteBuffer)
  }

  private var held = ByteBuffer()
  /// Whether nothing has come yet.
  var isEmpty: Bool { held.readableBytes == 0 }
  private var isForDoor = false
  /// How many of the bytes held are known not to end the head.
  private var searched = 0

  /// - Parameter isAt: whether WebSockets are to be had at a path.
  mutating func received(_ bytes: ByteBuffer, isAt: (Substring) -> Bool) -> Step {
    var all = held
    held = ByteBuffer()
    if all.readableBytes == 0 { all = bytes } else { all.writeImmutableBuffer(bytes) }
    if !isForDoor {
      switch Self.target(of: all.readableBytesView) {
      case .undecided: return hold(all)
      case .other: return .elsewhere(all)
      case .path(let path):
        guard isAt(path[...]) else { return .elsewhere(all) }
        isForDoor = true
        // Empty lines before a request are ignored (RFC 9112, 2.2), and would be taken for the end of its head.
        all.moveReaderIndex(forwardBy: all.readableBytesView.prefix(while: Self.isLineEnd).count)
      }
    }
    if let length = headLength(all.readableBytesView), length <= Self.headBytesMax,
      let head = all.readSlice(length: length)
    {
      return .head(head, rest: all.readableBytes == 0 ? ByteBuffer() : all.slice())
    }
    // The router's parser says what is to be said of it.
    guard all.readableBytes <= Self.headBytesMax else { return .elsewhere(all) }
    return hold(all)
  }

  /// A copy, so that what brought the bytes is not held too.
  private mutating func hold(_ bytes: ByteBuffer) -> Step {
    held = ByteBuffer(bytes: bytes.readableBytesView)
    return .more
  }

  private enum Target {
    case undecided
    case path(String)
    /// No request that could be the door's.
    case other
  }

  private static func target(of bytes: ByteBufferView) -> Target {
    let request = bytes.drop(while: isLineEnd)
    guard request.startIndex - bytes.startIndex <= emptyLineBytesMax else { return .other }
    // The router's parser knows more methods than those of capitals, and what to say of all else.
    let method = request.prefix { (0x41...0x5A).contains($0) }
    guard method.count <= methodBytesMax else { return .other }
    guard method.endIndex < request.endIndex else { return .undecided }
    guard request[method.endIndex] == UInt8(ascii: " ") else { return .other }
    let rest = request[request.index(after: method.endIndex)...]
    let target = rest.prefix { !" ?#\r\n".utf8.contains($0) }
    guard target.count <= targetBytesMax else { return .other }
    guard target.endIndex < rest.endIndex else { return .undecided }
    return .path(String(RequestTarget.relative(String(decoding: target, as: UTF8.self)[...])))
  }

  /// Through the empty line behind the fields.
  private mutating func headLength(_ bytes: ByteBufferView) -> Int? {
    let (cr, lf) = (UInt8(ascii: "\r"), UInt8(ascii: "\n"))
    var index = bytes.startIndex + max(0, searched - 3)
    while index < bytes.endIndex {
      guard let line = bytes[index...].firstIndex(of: lf) else { break }
      var next = line + 1
      if next < bytes.endIndex, bytes[next] == cr { next += 1 }
      if next < bytes.endIndex, bytes[next] == lf { return next + 1 - bytes.startIndex }
      index = line + 1
    }
    searched = bytes.count
    return nil
  }

  private static func isLineEnd(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n") }

  private static let emptyLineBytesMax = 16
  private static let methodBytesMax = 32
  private static let targetBytesMax = 1024
  /// Twice what heads may have.
  private static let headBytesMax = 64 << 10
}

/// A request's target (RFC 9112, 3.2).
enum RequestTarget {
  /// Without scheme and authority, which a client may send although it does not speak to a proxy.
  static func relative(_ target: Substring) -> Substring {
    guard target.first != "/", let scheme = target.firstRange(of: "://") else { return target }
    let rest = target[scheme.upperBound...]
    return rest.firstIndex(of: "/").map { rest[$0...] } ?? ""
  }

  /// Path and query, undecoded.
  static func split(_ target: String) -> (path: Substring, query: Substring) {
    let relative = relative(target[...]).prefix { $0 != "#" }
    guard let mark = relative.firstIndex(of: "?") else { return (relative, "") }
    return (relative[..<mark], relative[relative.index(after: mark)...])
  }
}
