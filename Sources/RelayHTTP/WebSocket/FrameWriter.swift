import NIOCore

/// Frames as a server sends them (RFC 6455, 5.2): whole messages, unmasked.
enum FrameWriter {
  /// A frame with its head, in one buffer: over TLS it becomes one record.
  static func frame(_ kind: FrameKind, _ payload: ByteBuffer, allocator: ByteBufferAllocator) -> ByteBuffer {
    let length = payload.readableBytes
    var frame = allocator.buffer(capacity: headBytesMax + length)
    frame.writeInteger(0x80 | kind.rawValue)
    switch length {
    case ...125: frame.writeInteger(UInt8(length))
    case ...0xFFFF: frame.writeMultipleIntegers(UInt8(126), UInt16(length))
    default: frame.writeMultipleIntegers(UInt8(127), UInt64(length))
    }
    frame.writeImmutableBuffer(payload)
    return frame
  }

  static func close(_ close: SocketClose, allocator: ByteBufferAllocator) -> ByteBuffer {
    var payload = allocator.buffer(capacity: controlBytesMax)
    payload.writeInteger(close.code)
    // Ours are short; what would not fit a control frame is left out.
    if close.reason.utf8.count <= controlBytesMax - 2 { payload.writeString(close.reason) }
    return frame(.close, payload, allocator: allocator)
  }

  /// The answer to a client's close: its own code, if it gave one.
  static func closeAnswer(_ code: UInt16?, allocator: ByteBufferAllocator) -> ByteBuffer {
    var payload = ByteBuffer()
    if let code { payload.writeInteger(code) }
    return frame(.close, payload, allocator: allocator)
  }

  private static let headBytesMax = 10
  private static let controlBytesMax = 125
}
