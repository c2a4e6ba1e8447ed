// A WebSocket client that sends what no library would: any bytes, cut anywhere, and that reads only when told to.

import Foundation
package import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// A frame as it came from the relay.
package struct RawFrame: Sendable, Equatable {
  package let opcode: UInt8
  package let isFinal: Bool
  package let payload: [UInt8]

  package init(opcode: UInt8, isFinal: Bool, payload: [UInt8]) {
    self.opcode = opcode
    self.isFinal = isFinal
    self.payload = payload
  }

  package var text: String { String(decoding: payload, as: UTF8.self) }
  /// The code of a close frame; nil without one.
  package var closeCode: Int? {
    opcode == 8 && payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil
  }
}

/// A relay's answer to a request for a WebSocket.
package struct RawAnswer: Sendable {
  package let status: Int
  /// By name in lower case.
  package let headers: [String: String]
  package let body: String
}

/// One connection; `close()` it.
package final class RawSocket: Sendable {
  private let channel: any Channel
  private let inbox: RawInbox

  private init(_ channel: any Channel, _ inbox: RawInbox) {
    self.channel = channel
    self.inbox = inbox
  }

  /// Connects without saying anything.
  /// - Parameters:
  ///   - authority: speaks TLS, trusting it alone.
  ///   - protocols: offered by ALPN.
  ///   - address: of this host, from which it connects; nil for the system's choice.
  package static func connect(
    to port: Int, trusting authority: TestAuthority? = nil, protocols: [String] = ["http/1.1"],
    host: String = "127.0.0.1", from address: String? = nil
  ) async throws -> RawSocket {
    let inbox = RawInbox()
    let context = try authority.map { authority in
      var configuration = try TestLeaf.anonymousConfiguration(trusting: authority.certificate)
      configuration.applicationProtocols = protocols
      // No test waits for the relay's last word here.
      configuration.shutdownTimeout = .milliseconds(50)
      return try NIOSSLContext(configuration: configuration)
    }
    var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
    if let address { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: address, port: 0)) }
    let channel =
      try await bootstrap
      .channelOption(.allowRemoteHalfClosure, value: true)
      .connectTimeout(.seconds(20))
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let context {
            try pipeline.addHandler(NIOSSLClientHandler(context: context, serverHostname: "localhost"))
          }
          try pipeline.addHandler(RawHandler(inbox))
        }
      }
      .connect(host: host, port: port).get()
    return RawSocket(channel, inbox)
  }

  /// Connects and asks for a WebSocket.
  /// - Parameters:
  ///   - path: with the query.
  ///   - headers: beside `Host` and those of RFC 6455.
  /// - Throws: `TestFailure` unless the relay opens it.
  package static func open(
    _ path: String, on port: Int, headers: [(String, String)] = [], trusting authority: TestAuthority? = nil,
    host: String = "127.0.0.1", from address: String? = nil
  ) async throws -> RawSocket {
    let socket = try await connect(to: port, trusting: authority, host: host, from: address)
    do {
      try await socket.send(request(path, headers: headers))
      let answer = try await socket.answer()
      guard answer.status == 101 else { throw TestFailure("\(answer.status) \(answer.body)") }
      return socket
    } catch {
      await socket.close()
      throw error
    }
  }

  /// A well-behaved client's request for a WebSocket.
  package static func request(_ path: String, headers: [(String, String)] = []) -> [UInt8] {
    var lines = [
      "GET \(path) HTTP/1.1", "Host: relay", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: \(key)",
    ]
    lines += headers.map { "\($0.0): \($0.1)" }
    return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
  }

  /// The example of RFC 6455, 1.3.
  package static let key = "dGhlIHNhbXBsZSBub25jZQ=="
  package static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

  /// A frame as a client sends it, unless told otherwise.
  /// - Parameter mask: nil sends it unmasked.
  package static func frame(
    _ opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, reserved: UInt8 = 0,
    mask: [UInt8]? = [0x37, 0xFA, 0x21, 0x3D]
  ) -> [UInt8] {
    var bytes = [(isFinal ? 0x80 : 0) | reserved << 4 | opcode]
    let flag: UInt8 = mask == nil ? 0 : 0x80
    let count = payload.count
    switch count {
    case ...125: bytes.append(flag | UInt8(count))
    case ...0xFFFF: bytes += [flag | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
    default: bytes += [flag | 127] + (0..<8).reversed().map { UInt8(count >> ($0 * 8) & 0xFF) }
    }
    guard let mask else { return bytes + payload }
    return bytes + mask + payload.enumerated().map { $0.element ^ mask[$0.offset % 4] }
  }

  package func send(_ bytes: [UInt8]) async throws {
    try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get()
  }

  package func sendText(_ text: String) async throws { try await send(Self.frame(1, Array(text.utf8))) }
  package func sendBinary(_ bytes: [UInt8]) async throws { try await send(Self.frame(2, bytes)) }
  package func sendClose(_ code: Int) async throws {
    try await send(Self.frame(8, [UInt8(code >> 8), UInt8(code & 0xFF)]))
  }

  /// Says that nothing more will be sent, and goes on reading.
  package func finishSending() async throws { try await channel.close(mode: .output) }

  /// Stops taking what comes, or takes it again.
  package func setReading(_ isReading: Bool) async throws {
    try await channel.setOption(.autoRead, value: isReading).get()
  }

  /// The next answer over HTTP; its body ends with `Content-Length`.
  /// - Parameter isBare: to a HEAD request, whose answer has no body.
  package func answer(isBare: Bool = false, within limit: Duration = .seconds(60)) async throws -> RawAnswer {
    try await eventually("an answer over HTTP", within: limit, every: .milliseconds(2)) {
      // Asked first: what came before the end is there when the end is known.
      let hasEnded = self.inbox.hasEnded
      if let answer = self.inbox.takeAnswer(isBare: isBare) { return answer }
      guard !hasEnded else { throw TestFailure("closed without an answer") }
      return nil
    }
  }

  /// The next frame.
  /// - Throws: `TestFailure` when the connection ends before.
  package func frame(within limit: Duration = .seconds(60)) async throws -> RawFrame {
    try await eventually("a frame", within: limit, every: .milliseconds(2)) {
      let hasEnded = self.inbox.hasEnded
      if let frame = self.inbox.takeFrame() { return frame }
      guard !hasEnded else { throw TestFailure("closed without a frame") }
      return nil
    }
  }

  /// A frame that came already.
  package func frameIfAny() -> RawFrame? { inbox.takeFrame() }

  /// Passes all frames over until the relay closes.
  /// - Returns: the code of its close frame; nil when it ended without one.
  package func closeCode(within limit: Duration = .seconds(60)) async throws -> Int? {
    try await eventually("a close frame", within: limit, every: .milliseconds(2)) { () -> Int?? in
      let hasEnded = self.inbox.hasEnded
      while let frame = self.inbox.takeFrame() {
        if frame.opcode == 8 { return .some(frame.closeCode ?? 1005) }
      }
      return hasEnded ? .some(nil) : nil
    }
  }

  /// Waits until the relay has ended its side of the connection.
  package func ended(within limit: Duration = .seconds(60)) async throws {
    try await eventually("the end of the connection", within: limit, every: .milliseconds(2)) { self.inbox.hasEnded }
  }

  /// All that comes to the end of the connection.
  package func rest(within limit: Duration = .seconds(60)) async throws -> [UInt8] {
    try await ended(within: limit)
    return inbox.take { bytes in bytes.readBytes(length: bytes.readableBytes) } ?? []
  }

  /// The value that `body` takes from received bytes that were not taken yet, as soon as it takes any.
  /// - Throws: `TestFailure` when the connection ends before.
  package func next<Value: Sendable>(
    _ what: String, within limit: Duration = .seconds(60), _ body: @escaping @Sendable (inout ByteBuffer) -> Value?
  ) async throws -> Value {
    try await eventually("\(what)", within: limit, every: .milliseconds(2)) {
      let hasEnded = self.inbox.hasEnded
      if let value = self.inbox.take(body) { return value }
      guard !hasEnded else { throw TestFailure("closed without \(what)") }
      return nil
    }
  }

  package var hasEnded: Bool { inbox.hasEnded }
  /// Bytes that came and were not taken.
  package var unreadBytes: Int { inbox.count }

  /// Ends the connection without a word.
  package func close() async {
    do {
      try await channel.close()
    } catch {
      // Closed already.
    }
  }
}

/// The bytes that came from the relay.
private final class RawInbox: Sendable {
  private struct State {
    var bytes = ByteBuffer()
    var hasEnded = false
  }
  private let state = Mutex(State())

  var hasEnded: Bool { state.withLock { $0.hasEnded } }
  var count: Int { state.withLock { $0.bytes.readableBytes } }

  func append(_ bytes: ByteBuffer) { state.withLock { _ = $0.bytes.writeImmutableBuffer(bytes) } }
  func end() { state.withLock { $0.hasEnded = true } }

  func take<Value: Sendable>(_ body: (inout ByteBuffer) -> Value?) -> Value? { state.withLock { body(&$0.bytes) } }

  func takeFrame() -> RawFrame? {
    state.withLock { state -> RawFrame? in
      var bytes = state.bytes
      guard let head = bytes.readInteger(as: UInt8.self), let short = bytes.readInteger(as: UInt8.self) else {
        return nil
      }
      let length: Int? =
        switch short & 0x7F {
        case 126: bytes.readInteger(as: UInt16.self).map(Int.init)
        case 127: bytes.readInteger(as: Int64.self).map(Int.init)
        default: Int(short & 0x7F)
        }
      guard let length, let payload = bytes.readBytes(length: length) else { return nil }
      state.bytes = bytes
      // Masked or with reserved bits, it would be shown as an opcode that there is not.
      let opcode = short & 0x80 == 0 && head & 0x70 == 0 ? head & 0x0F : 0xFF
      return RawFrame(opcode: opcode, isFinal: head & 0x80 != 0, payload: payload)
    }
  }

  func takeAnswer(isBare: Bool) -> RawAnswer? {
    state.withLock { state -> RawAnswer? in
      let bytes = Array(state.bytes.readableBytesView)
      guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
      var lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")[...]
      let words = lines.removeFirst().split(separator: " ")
      guard words.count > 1, let status = Int(words[1]) else { return nil }
      var headers: [String: String] = [:]
      for line in lines {
        let parts = line.split(separator: ":", maxSplits: 1)
        if parts.count == 2 { headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces) }
      }
      let length = status == 101 || isBare ? 0 : headers["content-length"].flatMap { Int($0) } ?? 0
      guard bytes.count >= end.upperBound + length else { return nil }
      state.bytes.moveReaderIndex(forwardBy: end.upperBound + length)
      let body = String(decoding: bytes[end.upperBound..<end.upperBound + length], as: UTF8.self)
      return RawAnswer(status: status, headers: headers, body: body)
    }
  }
}

private final class RawHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  private let inbox: RawInbox
  init(_ inbox: RawInbox) { self.inbox = inbox }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) { inbox.append(unwrapInboundIn(data)) }
  func channelInactive(context: ChannelHandlerContext) {
    inbox.end()
    context.fireChannelInactive()
  }
  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case ChannelEvent.inputClosed = event { inbox.end() }
    context.fireUserInboundEventTriggered(event)
  }
  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    inbox.end()
    context.close(promise: nil)
  }
}
