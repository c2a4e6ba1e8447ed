import NIOCore
import NIOWebSocket

/// Reads a server's frames: joins fragments, and judges what RFC 6455 forbids a server.
///
/// Between messages, within one whose fragments it holds, or over: after a close frame or a fault nothing is read any
/// more. Holds at most `messageBytesMax`.
struct FrameReader {
  enum Action: Equatable {
    case none
    case deliver(ClientSocket.Message)
    /// A ping: send this back.
    case pong(ByteBuffer)
    /// The server closes, or has answered our closing.
    case closed(code: Int, reason: String)
    /// The server may not do that: close with `code`.
    case fail(code: UInt16, reason: String)
  }

  private enum State {
    case betweenMessages
    case within(isText: Bool, ByteBuffer)
    case over
  }

  private let messageBytesMax: Int
  private var state = State.betweenMessages

  init(messageBytesMax: Int) { self.messageBytesMax = messageBytesMax }

  mutating func received(_ frame: WebSocketFrame) -> Action {
    if case .over = state { return .none }
    guard frame.maskKey == nil else { return fail(1002, "it masked a frame") }
    guard !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
      return fail(1002, "it used an extension that was not agreed on")
    }
    switch frame.opcode {
    case .ping: return .pong(frame.data)
    case .pong: return .deliver(.pong(Array(frame.data.readableBytesView)))
    case .connectionClose: return closed(frame.data)
    case .text, .binary: return began(frame)
    case .continuation: return continued(frame)
    default: return fail(1002, "it sent a frame of an unknown kind")
    }
  }

  private mutating func began(_ frame: WebSocketFrame) -> Action {
    guard case .betweenMessages = state else { return fail(1002, "it began a message within another") }
    guard frame.data.readableBytes <= messageBytesMax else { return fail(1009, "it sent too large a message") }
    guard frame.fin else {
      state = .within(isText: frame.opcode == .text, frame.data)
      return .none
    }
    return whole(isText: frame.opcode == .text, frame.data)
  }

  private mutating func continued(_ frame: WebSocketFrame) -> Action {
    guard case .within(let isText, var joined) = state else {
      return fail(1002, "it went on with a message it had not begun")
    }
    state = .betweenMessages  // `joined` is this function's alone: it grows without a copy.
    guard joined.readableBytes + frame.data.readableBytes <= messageBytesMax else {
      return fail(1009, "it sent too large a message")
    }
    joined.writeImmutableBuffer(frame.data)
    guard frame.fin else {
      state = .within(isText: isText, joined)
      return .none
    }
    return whole(isText: isText, joined)
  }

  private mutating func whole(isText: Bool, _ data: ByteBuffer) -> Action {
    guard isText else { return .deliver(.binary(Array(data.readableBytesView))) }
    guard let text = String(validating: data.readableBytesView, as: UTF8.self) else {
      return fail(1007, "it sent a text that is not UTF-8")
    }
    return .deliver(.text(text))
  }

  private mutating func closed(_ data: ByteBuffer) -> Action {
    var data = data
    guard data.readableBytes > 0 else {
      state = .over
      return .closed(code: 1005, reason: "")
    }
    guard let code = data.readInteger(as: UInt16.self),
      let reason = String(validating: data.readableBytesView, as: UTF8.self)
    else { return fail(1002, "its close frame cannot be read") }
    state = .over
    return .closed(
      code: Int(code), reason: String(reason.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F }))
  }

  private mutating func fail(_ code: UInt16, _ reason: String) -> Action {
    state = .over
    return .fail(code: code, reason: reason)
  }
}
