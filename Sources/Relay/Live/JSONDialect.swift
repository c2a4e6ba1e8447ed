import FoundationEssentials
import NIOCore
import RelayCore
import RelayHTTP

/// Text messages in JSON, of the years before protobuf: deliveries, acknowledgements and pings, no requests (reference
/// 1.12.3).
struct JSONDialect: SocketDialect {
  /// Binary messages are ignored.
  func read(_ message: SocketMessage) -> SocketFrame {
    guard case .text(let buffer) = message else { return .nothing }
    do throws(JSONError) {
      return try Self.frame(buffer.readableBytesUInt8Span.bytes)
    } catch {
      return .malformed(SocketClose(1008, "Badly Formatted"))
    }
  }

  private static func frame(_ json: RawSpan) throws(JSONError) -> SocketFrame {
    var reader = JSONReader(json)
    var type: Int64?
    var id: Int64?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, "type") {
        type = try reader.integer()
      } else if reader.matches(key, "id") {
        id = try reader.integer()
      } else {
        try reader.skip()
      }
    }
    try reader.finish()
    switch type {
    case 1: return id.flatMap { UInt64(exactly: $0) }.map { .acknowledgement($0) } ?? .nothing
    case 2: return .ping
    default: return .malformed(SocketClose(1008, "Unknown Type"))
    }
  }

  /// They count from 0.
  func deliveryID(after last: UInt64?, isTaken: (UInt64) -> Bool) -> UInt64 { last.map { $0 + 1 } ?? 0 }

  func delivery(of sealed: Data, id: UInt64) throws -> SocketMessage {
    var writer = JSONWriter(capacity: 48 + sealed.count / 3 * 4)
    writer.beginObject()
    writer.key("id")
    writer.integer(id)
    writer.key("message")
    writer.base64(sealed, padded: true)
    writer.endObject()
    return .text(ByteBuffer(bytes: writer.bytes))
  }

  func answer(_ answer: SocketAnswer, to id: UInt64) throws -> SocketMessage? { nil }

  var pong: SocketMessage? { .text(ByteBuffer(string: #"{"type":3}"#)) }
}
