import NIOCore
import NIOWebSocket

@testable import RelayClient

/// NIO takes the frames apart, the client joins them.
func fuzzServerFrames(_ body: [UInt8]) {
  var reader = FrameReader(messageBytesMax: messageBytesMax)
  var rest = body[...]
  while let first = rest.popFirst() {
    let length = Int(rest.popFirst() ?? 0)
    let data = ByteBuffer(bytes: rest.prefix(length))
    rest = rest.dropFirst(length)
    let frame = WebSocketFrame(
      fin: first & 0x80 != 0, rsv1: first & 0x40 != 0,
      opcode: WebSocketOpcode(encodedWebSocketOpcode: first & 15) ?? .ping,
      maskKey: first & 0x20 != 0 ? [1, 2, 3, 4] : nil, data: data)
    switch reader.received(frame) {
    case .deliver(.text(let text)): demand(text.utf8.count <= messageBytesMax, "a message is bounded")
    case .deliver(.binary(let bytes)): demand(bytes.count <= messageBytesMax, "a message is bounded")
    case .deliver(.ping), .deliver(.pong), .pong, .none, .closed, .fail: break
    }
  }
}
