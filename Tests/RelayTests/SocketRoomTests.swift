import NIOCore
import NIOEmbedded
import TestSupport
import TestTags
import Testing

@testable import RelayHTTP

/// Messages over WebSockets that come in part share their room with requests' bodies.
@Suite(.tags(.unit)) struct SocketRoomTests {
  private let room = BodyRoom(bytesMax: 200 << 10)

  @Test func `a message that never ends gives way to those that do`() throws {
    let (dripping, lively) = (try Peer(room), try Peer(room))
    try dripping.send(Self.begun(100 << 10, of: 120 << 10))
    #expect(room.bytes >= 100 << 10)
    let large = RawSocket.frame(2, [UInt8](repeating: 1, count: 120 << 10))
    try lively.send(Array(large.dropLast()))
    // 1013 in two bytes.
    #expect(try dripping.received().prefix(4) == [0x88, 17, 0x03, 0xF5])
    // It is heard no more, and holds nothing.
    try dripping.send([UInt8](repeating: 1, count: 20 << 10))
    #expect(dripping.messages == 0)
    #expect(room.bytes < 200 << 10)
    try lively.send([large.last ?? 0])
    #expect(lively.messages == 1)
    #expect(room.bytes == 0)
    try dripping.finish()
    try lively.finish()
  }

  @Test func `a message takes room by fragments, and gives it back with its connection`() throws {
    let peer = try Peer(room)
    // As much as any connection takes.
    try peer.send(Self.begun(10 << 10, of: 120 << 10))
    #expect(room.bytes == 0)
    try peer.send([UInt8](repeating: 1, count: 50 << 10))
    #expect(room.bytes >= 60 << 10)
    try peer.finish()
    #expect(room.bytes == 0)
    let other = try Peer(room)
    for number in 0..<3 {
      try other.send(RawSocket.frame(number == 0 ? 2 : 0, [UInt8](repeating: 1, count: 30 << 10), isFinal: false))
    }
    #expect(room.bytes >= 90 << 10)
    try other.send(RawSocket.frame(0, [1]))
    #expect(other.messages == 1)
    #expect(room.bytes == 0)
    try other.finish()
  }

  /// The first `count` bytes of a binary frame's payload, behind its head.
  private static func begun(_ count: Int, of whole: Int) -> [UInt8] {
    let frame = RawSocket.frame(2, [UInt8](repeating: 1, count: whole))
    return Array(frame.dropLast(whole - count))
  }
}

/// A client of one WebSocket, without a network.
private final class Peer {
  private final class Session: SocketSession {
    private(set) var messages = 0
    func opened() {}
    func received(_ message: SocketMessage) { messages += 1 }
    func becameWritable() {}
    func closed() {}
  }

  private let loop = EmbeddedEventLoop()
  private let channel: EmbeddedChannel
  private let session = Session()

  init(_ room: BodyRoom) throws {
    channel = EmbeddedChannel(loop: loop)
    let socket = SocketHandler(
      SocketLimits(messageBytesMax: 256 << 10, burst: 1000, perSecond: 1000, idle: .seconds(300)), SocketTimes(),
      watch: SocketWatch(), buffers: nil, room: room, eventLoop: loop)
    try channel.pipeline.syncOperations.addHandler(socket)
    channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
    socket.begin { [session] _ in session }
  }

  var messages: Int { session.messages }

  func send(_ bytes: [UInt8]) throws {
    try channel.writeInbound(ByteBuffer(bytes: bytes))
    loop.run()
  }

  /// - Returns: all bytes that were sent.
  func received() throws -> [UInt8] {
    loop.run()
    var bytes: [UInt8] = []
    while let part = try channel.readOutbound(as: ByteBuffer.self) { bytes += Array(part.readableBytesView) }
    return bytes
  }

  func finish() throws {
    channel.close(promise: nil)
    loop.run()
    _ = try channel.finish(acceptAlreadyClosed: true)
  }
}
