import NIOCore

/// The buffers into which NIO reads a connection's bytes.
///
/// NIO keeps the buffers of a connection for as long as that lives, at the largest size they ever had. They are the
/// greater part of an idle connection's cost. Here each read gets a buffer that is given back behind it, and only
/// `keptBytes` stay.
struct ReadBuffers: RecvByteBufferAllocator {
  private static let keptBytes = 64
  private static let (few, many) = (2 << 10, 16 << 10)

  private var size = ReadBuffers.keptBytes

  func buffer(allocator: ByteBufferAllocator) -> ByteBuffer { allocator.buffer(capacity: size) }

  /// - Returns: always that the next buffer may be larger: so NIO asks for a new one.
  mutating func record(actualReadBytes: Int) -> Bool {
    size = actualReadBytes < size || size == Self.keptBytes ? Self.few : Self.many
    return true
  }

  /// To be called before anything is read.
  static func keepNone(_ channel: any Channel) throws {
    guard let options = channel.syncOptions else { return }
    // NIO keeps as many buffers as it reads in one turn.
    try options.setOption(.maxMessagesPerRead, value: 1)
    try options.setOption(.recvAllocator, value: ReadBuffers())
  }

  /// As NIO does it by itself: faster for large bodies.
  static func keepSome(_ channel: any Channel) throws {
    guard let options = channel.syncOptions else { return }
    try options.setOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator())
    try options.setOption(.maxMessagesPerRead, value: 4)
  }
}
