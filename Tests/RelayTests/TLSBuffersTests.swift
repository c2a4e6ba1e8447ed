import Glibc
import NIOCore
import NIOEmbedded
import NIOSSL
import Synchronization
import TestSupport
import TestTags
import Testing

@testable import RelayHTTP

/// The pages of TLS's buffers: whom they belong to, and when they are given back.
@Suite(.tags(.unit)) struct TLSBuffersTests {
  /// Pages of the slot that are in memory.
  private static func pagesInMemory(_ address: UInt, _ length: Int) -> Int {
    let pageBytes = Int(sysconf(Int32(_SC_PAGESIZE)))
    var states = [UInt8](repeating: 0, count: length / pageBytes)
    let code = mincore(UnsafeMutableRawPointer(bitPattern: address), length, &states)
    #expect(code == 0)
    return states.count { $0 & 1 == 1 }
  }

  private static func touch(_ address: UInt) -> UnsafeMutablePointer<UInt8>? {
    let first = UnsafeMutablePointer<UInt8>(bitPattern: address)
    first?.pointee = 0xA5
    return first
  }

  @Test func `a slot has whole pages, of which only the touched ones are in memory`() throws {
    let slots = Pool()
    let (small, large) = (try slots.take(16 << 10, for: 1), try slots.take(32 << 10, for: 1))
    for (address, length) in [(small, 16 << 10), (large, 32 << 10)] {
      #expect(PageSlots.mayBeSlot(address) && slots.isSlot(address, of: 1) && !slots.isSlot(address, of: 2))
      #expect(Self.pagesInMemory(address, length) == 0)
      _ = Self.touch(address)
      #expect(Self.pagesInMemory(address, length) == 1)
    }
  }

  @Test func `slots do not overlap, however many there are`() throws {
    let slots = Pool()
    var taken: [Range<UInt>] = []
    for number in 0..<2000 {
      let length = PageSlots.sizes[number % PageSlots.sizes.count]
      let address = try slots.take(length, for: UInt64(number + 1))
      taken.append(address..<address + UInt(length))
    }
    taken.sort { $0.lowerBound < $1.lowerBound }
    #expect(zip(taken, taken.dropFirst()).allSatisfy { $0.upperBound <= $1.lowerBound })
  }

  @Test func `pages of a slot are given back for its owner alone`() throws {
    let slots = Pool()
    let (length, address) = (32 << 10, try slots.take(32 << 10, for: 1))
    let first = try #require(Self.touch(address))
    let last = try #require(Self.touch(address + UInt(length) - 1))
    #expect(!slots.dropPages(address, of: 2) && !slots.dropPages(address, of: PageSlots.nobody))
    #expect(first.pointee == 0xA5 && last.pointee == 0xA5)
    #expect(slots.dropPages(address, of: 1))
    #expect(Self.pagesInMemory(address, length) == 0 && first.pointee == 0 && last.pointee == 0)
  }

  @Test func `a slot that was given back is its former owner's no more`() throws {
    let slots = Pool()
    let address = try slots.take(16 << 10, for: 1)
    #expect(slots.giveBack(address))
    #expect(try slots.take(16 << 10, for: 2) == address)
    let first = try #require(Self.touch(address))
    #expect(!slots.dropPages(address, of: 1) && first.pointee == 0xA5)
  }

  @Test func `a slot without an owner can be adopted, once, and by its own address alone`() throws {
    let slots = Pool()
    let address = try slots.take(32 << 10, for: PageSlots.nobody)
    #expect(!slots.adopt(address + 16_384, for: 1))
    #expect(slots.adopt(address, for: 1) && !slots.adopt(address, for: 2))
    #expect(slots.isSlot(address, of: 1))
  }

  @Test func `of slots that are free only some keep their pages`() throws {
    let slots = Pool()
    let keptMax = PageSlots.warmMax(32 << 10)
    let taken = try (0..<keptMax + 10).map { _ in try slots.take(32 << 10, for: 1) }
    for address in taken {
      _ = Self.touch(address)
      #expect(slots.giveBack(address))
    }
    #expect(taken.reduce(0) { $0 + Self.pagesInMemory($1, 32 << 10) } == keptMax)
  }

  @Test func `addresses of the heap are no slots`() throws {
    let slots = Pool()
    _ = try slots.take(16 << 10, for: 1)
    let block = UnsafeMutableRawPointer.allocate(byteCount: 16 << 10, alignment: 16 << 10)
    defer { block.deallocate() }
    #expect(!slots.giveBack(UInt(bitPattern: block)) && !slots.isSlot(UInt(bitPattern: block), of: PageSlots.nobody))
  }

  /// Sizes of blocks, and of their slots.
  private static let blocks: [(Int, Int?)] = [
    (1, nil), (8192, nil), (8193, 16_384), (16_384, 16_384), (32_768, 32_768), (32_769, 65_536), (262_144, 262_144),
    (262_145, nil),
  ]

  @Test(arguments: blocks)
  func `blocks of TLS's sizes have slots`(size: Int, slotBytes: Int?) {
    #expect(PageSlots.slotBytes(for: size) == slotBytes)
  }

  @Test func `a quiet WebSocket over TLS keeps no pages, and goes on as before`() throws {
    let pair = try QuietPair()
    defer { pair.finish() }
    #expect(try pair.echo(1000) == 1000)
    #expect(pair.pagesInMemory > 0)
    pair.passTime(seconds: 3)
    #expect(pair.pagesInMemory == 0)
    for count in [1, 125, 40_000] {
      #expect(try pair.echo(count) == count)
      #expect(pair.slotCount == 2 && pair.pagesInMemory > 0)
      pair.passTime(seconds: 3)
      #expect(pair.pagesInMemory == 0)
    }
  }

  @Test func `pages stay as long as the channel holds what TLS encrypted`() throws {
    let pair = try QuietPair()
    defer { pair.finish() }
    pair.gate.isShut = true
    try pair.send(500)
    pair.passTime(seconds: 3)
    #expect(pair.pagesInMemory > 0)
    pair.gate.open()
    #expect(try pair.received() == 500)
    pair.passTime(seconds: 3)
    #expect(pair.pagesInMemory == 0)
  }

  fileprivate static func slots(of buffers: TLSBuffers) -> [UInt] {
    buffers.slots.indices.map { buffers.slots[$0] }
      .filter { address in PagedBuffers.slots.withLock { $0.isSlot(address, of: buffers.owner) } }
  }

  /// Pages in memory of the slots that a connection has. 16 KiB are enough to look at: what is used is at the start.
  fileprivate static func pagesInMemory(of buffers: TLSBuffers) -> Int {
    slots(of: buffers).reduce(0) { $0 + pagesInMemory($1, 16 << 10) }
  }
}

/// Slots of its own, for a test.
private final class Pool {
  private var slots = PageSlots()

  func take(_ slotBytes: Int, for owner: PageSlots.Owner) throws -> UInt {
    let address = slots.take(slotBytes, for: owner)
    return try #require(address)
  }

  func giveBack(_ address: UInt) -> Bool { slots.giveBack(address) }
  func adopt(_ address: UInt, for owner: PageSlots.Owner) -> Bool { slots.adopt(address, for: owner) }
  func isSlot(_ address: UInt, of owner: PageSlots.Owner) -> Bool { slots.isSlot(address, of: owner) }
  func dropPages(_ address: UInt, of owner: PageSlots.Owner) -> Bool { slots.dropPages(address, of: owner) }
}

/// A client and a server, behind TLS each, without a network. The server's WebSocket echoes.
private final class QuietPair {
  private let loop = EmbeddedEventLoop()
  private let client: EmbeddedChannel
  private let server: EmbeddedChannel
  private let buffers = TLSBuffers()
  private static let limits = SocketLimits(
    messageBytesMax: 256 << 10, burst: 1000, perSecond: 1000, idle: .seconds(300))
  let gate = FlushGate()

  init() throws {
    client = EmbeddedChannel(loop: loop)
    server = EmbeddedChannel(loop: loop)
    let authority = try TestAuthority()
    let leaf = try authority.leaf(relay: nil)
    let serverTLS = TLSConfiguration.makeServerConfiguration(
      certificateChain: try leaf.chain.map { .certificate($0) }, privateKey: .privateKey(try leaf.privateKey))
    var clientTLS = TLSConfiguration.makeClientConfiguration()
    // The certificate is not the matter here.
    clientTLS.certificateVerification = .none
    try server.pipeline.syncOperations.addHandler(gate)
    server.allocator = PagedBuffers.allocator
    let secure = NIOSSLServerHandler(context: try NIOSSLContext(configuration: serverTLS))
    try buffers.taking { try server.pipeline.syncOperations.addHandler(secure) }
    server.allocator = ByteBufferAllocator()
    let socket = SocketHandler(
      Self.limits, SocketTimes(), watch: SocketWatch(), buffers: buffers, eventLoop: loop)
    try server.pipeline.syncOperations.addHandler(socket)
    try client.pipeline.syncOperations.addHandler(
      NIOSSLClientHandler(context: try NIOSSLContext(configuration: clientTLS), serverHostname: nil))
    let address = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
    server.connect(to: address, promise: nil)
    client.connect(to: address, promise: nil)
    try exchange()
    socket.begin { Echo($0) }
  }

  var slotCount: Int { TLSBuffersTests.slots(of: buffers).count }
  var pagesInMemory: Int { TLSBuffersTests.pagesInMemory(of: buffers) }

  func passTime(seconds: Int) {
    for _ in 0..<seconds { loop.advanceTime(by: .seconds(1)) }
  }

  func send(_ count: Int) throws {
    try client.writeOutbound(Self.frame(count))
    try exchange()
  }

  /// - Returns: the bytes of the message that came back.
  func echo(_ count: Int) throws -> Int {
    try send(count)
    return try received()
  }

  func finish() {
    server.close(promise: nil)
    client.close(promise: nil)
    // A side that does not get the other's last word waits for it by this clock.
    try? exchange()
    passTime(seconds: 10)
    for channel in [server, client] where !channel.isActive { _ = try? channel.finish(acceptAlreadyClosed: true) }
  }

  private func exchange() throws {
    var isMoving = true
    while isMoving {
      isMoving = false
      loop.run()
      while let bytes = try client.readOutbound(as: ByteBuffer.self) {
        isMoving = true
        try server.writeInbound(bytes)
      }
      loop.run()
      while let bytes = try server.readOutbound(as: ByteBuffer.self) {
        isMoving = true
        try client.writeInbound(bytes)
      }
    }
  }

  /// - Returns: the bytes of the one message that has come from the server.
  func received() throws -> Int {
    try exchange()
    var all = ByteBuffer()
    while var bytes = try client.readInbound(as: ByteBuffer.self) { all.writeBuffer(&bytes) }
    _ = all.readInteger(as: UInt8.self)
    let length = all.readInteger(as: UInt8.self)
    if length == 126 { _ = all.readInteger(as: UInt16.self) }
    #expect(all.readableBytesView.allSatisfy { $0 == UInt8(ascii: "q") })
    return all.readableBytes
  }

  /// A binary message of `count` bytes under a mask of zeros; fewer than 65,536.
  private static func frame(_ count: Int) -> ByteBuffer {
    var frame = ByteBuffer(bytes: [0x82])
    if count <= 125 {
      frame.writeInteger(0x80 | UInt8(count))
    } else {
      frame.writeMultipleIntegers(UInt8(0x80 | 126), UInt16(count))
    }
    frame.writeInteger(UInt32(0))
    frame.writeRepeatingByte(UInt8(ascii: "q"), count: count)
    return frame
  }
}

/// Keeps what is written in the channel, as a client does that takes nothing.
private final class FlushGate: ChannelOutboundHandler {
  typealias OutboundIn = ByteBuffer

  var isShut = false
  private var context: ChannelHandlerContext?

  func open() {
    isShut = false
    context?.flush()
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }
  func flush(context: ChannelHandlerContext) { if !isShut { context.flush() } }
}

private final class Echo: SocketSession {
  private let socket: any Socket

  init(_ socket: any Socket) { self.socket = socket }

  func opened() {}
  func received(_ message: SocketMessage) { socket.send(message) }
  func becameWritable() {}
  func closed() {}
}
