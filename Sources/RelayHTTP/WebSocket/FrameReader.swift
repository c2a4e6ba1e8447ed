import NIOCore

/// The kinds of frames (RFC 6455, 5.2).
enum FrameKind: UInt8 {
  case continuation = 0
  case text = 1
  case binary = 2
  case close = 8
  case ping = 9
  case pong = 10

  var isControl: Bool { rawValue >= 8 }
}

/// Takes the frames of a client apart and joins the fragments of messages (RFC 6455, 5).
///
/// Nothing is kept of a frame whose head is forbidden already, and never more of a message than its limit. Payloads
/// are copied out of the bytes that brought them, so that these can be used again at once. After `broken` or `closed`
/// there is nothing more to read: the caller stops.
struct FrameReader {
  enum Event {
    case message(SocketMessage)
    /// A fragment that did not end a message, of so many bytes.
    case fragment(Int)
    case ping(ByteBuffer)
    case pong
    /// The client closes, with this code if it gave one.
    case closed(UInt16?)
    /// The client broke the protocol; it is owed this close.
    case broken(SocketClose)
  }

  private struct Frame {
    var kind: FrameKind
    var isFinal: Bool
    var length: Int
    /// The bytes of `length` that came.
    var received = 0
    /// As it lies in memory, repeated.
    var mask: UInt64
  }

  private let messageBytesMax: Int
  /// The head of the next frame, as far as it came.
  private var head = InlineArray<14, UInt8>(repeating: 0)
  private var headCount = 0
  /// The frame whose payload is being read.
  private var frame: Frame?
  /// The kind of the message that is being joined; nil between messages.
  private var kind: FrameKind?
  private var message = ByteBuffer()
  private var control = ByteBuffer()

  init(messageBytesMax: Int) { self.messageBytesMax = messageBytesMax }

  /// Whether a message, or a frame, has begun and not ended.
  var isInMidst: Bool { kind != nil || frame != nil || headCount > 0 }

  /// The memory of the message that has come in part.
  var heldBytes: Int { message.storageCapacity }

  /// Lets go of what has come in part: the caller reads no more.
  mutating func drop() { self = FrameReader(messageBytesMax: messageBytesMax) }

  /// - Returns: what comes next in `bytes`; nil once all of them are taken.
  mutating func next(_ bytes: inout ByteBuffer) -> Event? {
    while true {
      if var current = frame {
        take(&bytes, of: &current)
        guard current.received == current.length else {
          frame = current
          return nil
        }
        frame = nil
        return ended(current)
      }
      guard let byte = bytes.readInteger(as: UInt8.self) else { return nil }
      head[headCount] = byte
      headCount += 1
      if let refusal = begun() { return .broken(refusal) }
    }
  }

  /// Looks at the head, of which one more byte came: checks it as soon as it says enough, and begins the frame when it
  /// is whole.
  private mutating func begun() -> SocketClose? {
    guard let kind = FrameKind(rawValue: head[0] & 0x0F), head[0] & 0x70 == 0 else { return .protocolError }
    guard headCount >= 2 else { return nil }
    let isFinal = head[0] & 0x80 != 0
    // Frames of clients are masked.
    guard head[1] & 0x80 != 0 else { return .protocolError }
    let short = Int(head[1] & 0x7F)
    let lengthBytes = short == 126 ? 2 : short == 127 ? 8 : 0
    if kind.isControl {
      guard isFinal, lengthBytes == 0 else { return .protocolError }
    } else {
      guard (kind == .continuation) == (self.kind != nil) else { return .protocolError }
    }
    guard headCount >= 2 + lengthBytes else { return nil }
    let length =
      lengthBytes == 0 ? UInt64(short) : (2..<2 + lengthBytes).reduce(into: 0) { $0 = $0 << 8 | UInt64(head[$1]) }
    if !kind.isControl, length > UInt64(messageBytesMax - message.readableBytes) { return .tooBig }
    guard headCount == 2 + lengthBytes + 4 else { return nil }
    let mask = (headCount - 4..<headCount).reversed().reduce(into: UInt64(0)) { $0 = $0 << 8 | UInt64(head[$1]) }
    // At most the limit of a message, or 125: it fits.
    frame = Frame(kind: kind, isFinal: isFinal, length: Int(length), mask: mask << 32 | mask)
    headCount = 0
    if kind == .text || kind == .binary { self.kind = kind }
    return nil
  }

  private mutating func take(_ bytes: inout ByteBuffer, of frame: inout Frame) {
    let count = min(bytes.readableBytes, frame.length - frame.received)
    guard count > 0 else { return }
    if frame.kind.isControl {
      Self.unmask(count, from: &bytes, into: &control, frame)
    } else {
      Self.unmask(count, from: &bytes, into: &message, frame)
    }
    frame.received += count
  }

  private static func unmask(
    _ count: Int, from bytes: inout ByteBuffer, into target: inout ByteBuffer, _ frame: Frame
  ) {
    // Little-endian: the byte at offset 0 is the lowest.
    let shift = UInt64(frame.received % 4) * 8
    let mask = shift == 0 ? frame.mask : frame.mask >> shift | frame.mask << (64 - shift)
    target.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { output in
      bytes.readWithUnsafeReadableBytes { input in
        var offset = 0
        while offset + 8 <= count {
          let word = input.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
          output.storeBytes(of: (UInt64(littleEndian: word) ^ mask).littleEndian, toByteOffset: offset, as: UInt64.self)
          offset += 8
        }
        while offset < count {
          output[offset] = input[offset] ^ UInt8(truncatingIfNeeded: mask >> UInt64(offset % 8 * 8))
          offset += 1
        }
        return count
      }
      return count
    }
  }

  private mutating func ended(_ frame: Frame) -> Event {
    switch frame.kind {
    case .ping: return .ping(handOver(&control))
    case .pong:
      control = ByteBuffer()
      return .pong
    case .close: return Self.closed(handOver(&control))
    case .continuation, .text, .binary:
      guard frame.isFinal else { return .fragment(frame.length) }
      let isText = kind == .text
      kind = nil
      let whole = handOver(&message)
      guard isText else { return .message(.binary(whole)) }
      return whole.isText ? .message(.text(whole)) : .broken(.notText)
    }
  }

  private func handOver(_ buffer: inout ByteBuffer) -> ByteBuffer {
    defer { buffer = ByteBuffer() }
    return buffer
  }

  /// RFC 6455, 5.5.1 and 7.4.
  private static func closed(_ payload: ByteBuffer) -> Event {
    guard payload.readableBytes > 0 else { return .closed(nil) }
    guard let code = payload.getInteger(at: payload.readerIndex, as: UInt16.self) else {
      return .broken(.protocolError)
    }
    switch code {
    case 1000...1003, 1007...1014, 3000...4999: break
    default: return .broken(.protocolError)
    }
    guard let reason = payload.getSlice(at: payload.readerIndex + 2, length: payload.readableBytes - 2), reason.isText
    else { return .broken(.notText) }
    return .closed(code)
  }
}

extension ByteBuffer {
  /// Whether it is UTF-8.
  fileprivate var isText: Bool {
    do {
      _ = try UTF8Span(validating: readableBytesUInt8Span)
      return true
    } catch {
      return false
    }
  }
}
