import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import NIOWebSocket

/// The login that opens a WebSocket.
struct SocketLogin: Sendable {
  /// `+` and digits.
  let number: String
  let password: String

  /// Both escaped, as clients do (reference 1.12.2).
  fileprivate var query: String {
    "login=\(Self.escaped(number))&password=\(Self.escaped(password))"
  }

  private static func escaped(_ text: String) -> String {
    text.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
  }
}

/// A relay's listener on loopback, as devices reach it.
struct SocketTarget: Sendable {
  let port: Int
  /// nil for plain TCP.
  var tls: NIOSSLContext?

  private static let limit = TimeAmount.seconds(30)
  private static let frameBytesMax = 2 << 20

  /// Opens the WebSocket of a device.
  /// - Parameters:
  ///   - source: the local address; nil leaves it to the system.
  ///   - makeTLS: for the device's TLS, instead of `tls`. Called on `loop`.
  ///   - makeHandler: for what takes and gives `WebSocketFrame`s. Called on `loop`, as is the handler.
  /// - Returns: fails with a reason that holds nothing of the request, when it is not open within half a minute.
  func open(
    _ login: SocketLogin, on loop: any EventLoop, from source: SocketAddress? = nil,
    securedBy makeTLS: (@Sendable () throws -> any ChannelHandler)? = nil,
    _ makeHandler: @escaping @Sendable () throws -> any ChannelHandler
  ) -> EventLoopFuture<any Channel> {
    let opened = loop.makePromise(of: Void.self)
    let limit = loop.scheduleTask(in: Self.limit) { opened.fail(BenchmarkFailure("a WebSocket did not open in time")) }
    opened.futureResult.whenComplete { _ in limit.cancel() }
    let (tls, request) = (tls, SocketOpening.request(login.query))
    var bootstrap = ClientBootstrap(group: loop)
      .connectTimeout(Self.limit)
      .channelOption(.tcpOption(.tcp_nodelay), value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          if let makeTLS {
            try pipeline.addHandler(makeTLS())
          } else if let tls {
            try pipeline.addHandler(NIOSSLClientHandler(context: tls, serverHostname: nil))
          }
          try pipeline.addHandler(
            SocketOpening(request, opened) { pipeline in
              let decoder = ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: Self.frameBytesMax))
              try pipeline.addHandlers([decoder, WebSocketFrameEncoder(), makeHandler()])
            })
        }
      }
    if let source { bootstrap = bootstrap.bind(to: source) }
    return connect(bootstrap, loop)
      .flatMap { channel in
        opened.futureResult.map { channel }.flatMapErrorThrowing { error in
          channel.close(promise: nil)
          throw error
        }
      }
      .flatMapErrorThrowing { error in
        // A promise that nobody keeps would be a defect of its own; one that is kept stays as it is.
        opened.fail(error)
        throw error
      }
  }

  /// Without a name there is nothing to look up.
  private func connect(_ bootstrap: ClientBootstrap, _ loop: any EventLoop) -> EventLoopFuture<any Channel> {
    do {
      return bootstrap.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: port))
    } catch {
      return loop.makeFailedFuture(error)
    }
  }
}

/// Asks for a WebSocket and, once the relay has agreed, makes place for what handles its frames.
private final class SocketOpening: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let request: ByteBuffer
  private let opened: EventLoopPromise<Void>
  private let install: (ChannelPipeline.SynchronousOperations) throws -> Void
  private var received = ByteBuffer()

  // The key and its answer are those of RFC 6455, 1.3: one for all connections is enough here.
  private static let key = "dGhlIHNhbXBsZSBub25jZQ=="
  private static let accepted = Array("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".utf8)
  private static let headEnd = Array("\r\n\r\n".utf8)
  private static let headBytesMax = 16 << 10

  static func request(_ query: String) -> ByteBuffer {
    ByteBuffer(
      string: """
        GET /v1/websocket/?\(query) HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: \(key)\r\nSec-WebSocket-Version: 13\r\n\r\n
        """)
  }

  init(
    _ request: ByteBuffer, _ opened: EventLoopPromise<Void>,
    install: @escaping (ChannelPipeline.SynchronousOperations) throws -> Void
  ) {
    self.request = request
    self.opened = opened
    self.install = install
  }

  func channelActive(context: ChannelHandlerContext) {
    context.writeAndFlush(wrapOutboundOut(request), promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    received.writeBuffer(&bytes)
    guard let end = received.readableBytesView.firstRange(of: Self.headEnd) else {
      if received.readableBytes > Self.headBytesMax { opened.fail(BenchmarkFailure("a head without end")) }
      return
    }
    guard let head = received.readSlice(length: end.upperBound - received.readerIndex) else { return }
    do {
      try check(head)
      let pipeline = context.pipeline.syncOperations
      try install(pipeline)
      opened.succeed(())
      // Frames that came right behind the answer.
      if received.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(received)) }
      pipeline.removeHandler(self, promise: nil)
    } catch {
      opened.fail(error)
    }
  }

  private func check(_ head: ByteBuffer) throws(BenchmarkFailure) {
    let bytes = head.readableBytesView
    guard bytes.starts(with: "HTTP/1.1 101 ".utf8) else {
      // `HTTP/1.1 403 Forbidden`
      throw BenchmarkFailure(
        "a WebSocket was refused with " + String(decoding: bytes.dropFirst(9).prefix(3), as: UTF8.self))
    }
    guard bytes.firstRange(of: Self.accepted) != nil else {
      throw BenchmarkFailure("a WebSocket was agreed to without the answer to its key")
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    opened.fail(BenchmarkFailure("a connection closed before its WebSocket was open"))
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    opened.fail(error)
    context.close(promise: nil)
  }
}
