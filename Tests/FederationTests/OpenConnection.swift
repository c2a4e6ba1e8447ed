// One TLS connection by hand, whose end a test can see.

import Federation
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

final class OpenConnection: Sendable {
  private let channel: any Channel
  private let collector: Collector

  private init(channel: any Channel, _ collector: Collector) {
    self.channel = channel
    self.collector = collector
  }

  /// Connects and speaks HTTP/1.1; in TLS 1.3 a refusal shows only later.
  static func open(to relay: TestRelay, as leaf: TestLeaf) async throws -> OpenConnection {
    let context = try NIOSSLContext(configuration: leaf.clientConfiguration(trusting: relay.ownAuthority))
    let collector = Collector()
    let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(try NIOSSLClientHandler(context: context, serverHostname: nil))
          try pipeline.addHandler(collector.handler())
        }
      }
      .connect(host: "127.0.0.1", port: relay.endpoint.port).get()
    return OpenConnection(channel: channel, collector)
  }

  var isOpen: Bool { channel.isActive }
  var text: String { collector.text }

  /// Sends a request and does not wait for an answer.
  func send(_ request: String, body: String? = nil) {
    var text = "\(request) HTTP/1.1\r\nHost: relay\r\n"
    if let body { text += "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n" }
    channel.writeAndFlush(ByteBuffer(string: text + "\r\n" + (body ?? "")), promise: nil)
  }

  /// Sends bytes as they are.
  func send(text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)).get() }

  /// Sends a GET and waits for its status line.
  func get(_ path: String) async throws -> String {
    let before = collector.text.utf8.count
    send("GET \(path)")
    return try await eventually("an answer") { () -> String? in
      let new = String(decoding: collector.text.utf8.dropFirst(before), as: UTF8.self)
      if new.contains("\r\n\r\n") { return new }
      if !isOpen { throw TestFailure("the connection was closed") }
      return nil
    }
  }

  func close() async throws {
    if channel.isActive { try await channel.close() }
  }
}

private final class Collector: Sendable {
  private let state = Mutex("")
  var text: String { state.withLock { $0 } }

  func handler() -> Handler { Handler(self) }

  final class Handler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let collector: Collector

    init(_ collector: Collector) { self.collector = collector }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      let text = String(buffer: unwrapInboundIn(data))
      collector.state.withLock { $0 += text }
    }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
  }
}
