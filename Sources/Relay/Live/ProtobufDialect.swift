import FoundationEssentials
import NIOCore
import RelayCore
import RelayHTTP
import SwiftProtobuf
import WireMessages

/// Binary messages, each a `WebSocketMessage`: a small HTTP in both directions (reference 1.12.4).
struct ProtobufDialect: SocketDialect {
  /// Texts are ignored.
  func read(_ message: SocketMessage) -> SocketFrame {
    guard case .binary(let buffer) = message else { return .nothing }
    let bytes = Array(buffer.readableBytesView)
    guard let headerCount = Self.headerCount(bytes) else { return .malformed(.protocolError) }
    guard headerCount <= SocketCall.headersMax else { return .malformed(.tooMuch) }
    let frame: Textsecure_WebSocketMessage
    do {
      frame = try Textsecure_WebSocketMessage(serializedBytes: bytes)
    } catch {
      return .malformed(.protocolError)
    }
    switch frame.type {
    case Self.request where frame.hasRequest: return read(frame.request)
    case Self.response where frame.hasResponse: return read(frame.response)
    default: return .malformed(.protocolError)
    }
  }

  /// The headers that a frame would make, counted without making them: two bytes of it become sixteen of memory.
  /// - Returns: nil when the bytes are no protobuf.
  private static func headerCount(_ bytes: [UInt8]) -> Int? {
    var count = 0
    var frame = ProtobufFields(bytes[...])
    while let field = frame.next() {
      guard field.number == 2 || field.number == 3, let content = field.content else { continue }
      var message = ProtobufFields(content)
      while let field = message.next() {
        if field.number == 5 { count += 1 }
      }
      guard message.isWhole else { return nil }
    }
    return frame.isWhole ? count : nil
  }

  private func read(_ request: Textsecure_WebSocketRequest) -> SocketFrame {
    guard request.hasVerb, request.hasPath else { return .malformed(.protocolError) }
    return .call(
      SocketCall(
        verb: request.verb, path: request.path, headers: request.headers,
        body: request.hasBody ? ByteBuffer(bytes: request.body) : nil, id: request.hasID ? request.id : nil))
  }

  /// An answer to nothing that was asked is ignored when it is looked for: one client answers everything, with the id 0
  /// if there was none.
  private func read(_ response: Textsecure_WebSocketResponse) -> SocketFrame {
    guard response.hasID else { return .nothing }
    return (200..<300).contains(response.status) ? .acknowledgement(response.id) : .refusal(response.id)
  }

  /// Random and positive in 64 bits.
  func deliveryID(after last: UInt64?, isTaken: (UInt64) -> Bool) -> UInt64 {
    var random = SystemRandomNumberGenerator()
    while true {
      let id = random.next() >> 1
      if id != 0, !isTaken(id) { return id }
    }
  }

  func delivery(of sealed: Data, id: UInt64) throws -> SocketMessage {
    try Self.call("PUT", "/api/v1/message", body: sealed, id: id)
  }

  /// A request of the server to a client.
  static func call(_ verb: String, _ path: String, body: Data, id: UInt64) throws -> SocketMessage {
    var frame = Textsecure_WebSocketMessage()
    frame.type = request
    frame.request.verb = verb
    frame.request.path = path
    frame.request.body = body
    frame.request.id = id
    return try binary(frame)
  }

  func answer(_ answer: SocketAnswer, to id: UInt64) throws -> SocketMessage? {
    var frame = Textsecure_WebSocketMessage()
    frame.type = Self.response
    frame.response.id = id
    frame.response.status = UInt32(answer.status)
    frame.response.message = answer.message
    if let body = answer.body, body.readableBytes > 0 { frame.response.body = Data(body.readableBytesView) }
    frame.response.headers = answer.headers
    return try Self.binary(frame)
  }

  var pong: SocketMessage? { nil }

  private static func binary(_ frame: Textsecure_WebSocketMessage) throws -> SocketMessage {
    let bytes: [UInt8] = try frame.serializedBytes()
    return .binary(ByteBuffer(bytes: bytes))
  }

  private static let request: UInt32 = 1
  private static let response: UInt32 = 2
}
