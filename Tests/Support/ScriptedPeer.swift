// A peer of another make: real TLS under a CA of its own, and whatever answers a test wants.

import AsyncHTTPClient
import NIOCore
package import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

package final class ScriptedPeer: Sendable {
  package struct Request: Sendable {
    package let method: HTTPMethod
    package let path: String
    package var headers: HTTPHeaders
    package var bytes: [UInt8] = []
    package var body: String { String(decoding: bytes, as: UTF8.self) }
  }
  package struct Answer: Sendable {
    package var status: Int
    package var headers: [(String, String)] = []
    package var bytes: [UInt8]

    package init(status: Int, headers: [(String, String)] = [], body: String = "", bytes: [UInt8]? = nil) {
      self.status = status
      self.headers = headers
      self.bytes = bytes ?? Array(body.utf8)
    }
  }
  package typealias Rule = @Sendable (Request) -> Answer?
  private struct State {
    var requests: [Request] = []
    var connections: [any Channel] = []
    var rule: Rule = { _ in nil }
    /// Requests without an answer.
    var pending: [(request: Request, reply: @Sendable (Answer) -> Void)] = []
  }

  package let authority: TestAuthority
  package let leaf: TestLeaf
  private let state = Mutex(State())
  private let channel: any Channel

  package var url: String { "https://127.0.0.1:\(channel.localAddress?.port ?? 0)" }
  package var requests: [Request] { state.withLock { $0.requests } }
  /// - Parameter rule: what is answered from now on, to requests that have none yet as well; nil leaves one without.
  package func answer(by rule: @escaping Rule) {
    let pending = state.withLock { state in
      state.rule = rule
      defer { state.pending = state.pending.filter { rule($0.request) == nil } }
      return state.pending
    }
    for (request, reply) in pending {
      if let answer = rule(request) { reply(answer) }
    }
  }
  /// - Parameter answer: to every request from now on; nil leaves them without one.
  package func answer(with answer: Answer?) { state.withLock { $0.rule = { _ in answer } } }
  package func answer(_ status: Int, _ body: String = "", headers: [(String, String)] = []) {
    answer(with: Answer(status: status, headers: headers, body: body))
  }

  /// Listens until `close`. Answers nothing at first.
  /// - Parameter port: nil for a free one that no outgoing connection is given, so that the peer can come back on it.
  package static func start(
    _ name: String, authority: TestAuthority? = nil, port wanted: Int? = nil
  ) async throws -> ScriptedPeer {
    let port = try wanted ?? Loopback.freePorts(1)[0]
    let authority = try authority ?? TestAuthority(name)
    let leaf = try authority.leaf(relay: name)
    let tls = try NIOSSLContext(
      configuration: .makeServerConfiguration(
        certificateChain: leaf.chain.map { .certificate($0) }, privateKey: .privateKey(leaf.privateKey)))
    let peer = Mutex<ScriptedPeer?>(nil)
    let channel = try await ServerBootstrap(group: HTTPClient.defaultEventLoopGroup)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          peer.withLock { $0 }?.accepted(channel)
          try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(Handler { peer.withLock { $0 } })
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
    let started = ScriptedPeer(authority: authority, leaf: leaf, channel: channel)
    peer.withLock { $0 = started }
    return started
  }

  private init(authority: TestAuthority, leaf: TestLeaf, channel: any Channel) {
    self.authority = authority
    self.leaf = leaf
    self.channel = channel
  }

  package func close() async throws { try await channel.close() }
  /// As `close`, and all connections end with it.
  package func leave() async throws {
    try await close()
    for connection in state.withLock({ $0.connections }) { connection.close(promise: nil) }
  }
  /// Ends the connection that was made first.
  package func dropFirstConnection() { state.withLock { $0.connections.first }?.close(promise: nil) }
  private func accepted(_ connection: any Channel) { state.withLock { $0.connections.append(connection) } }

  private func take(_ request: Request, reply: @escaping @Sendable (Answer) -> Void) {
    let answer = state.withLock { state in
      state.requests.append(request)
      let answer = state.rule(request)
      if answer == nil { state.pending.append((request, reply)) }
      return answer
    }
    if let answer { reply(answer) }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart
    private let peer: () -> ScriptedPeer?
    private var request: Request?

    init(_ peer: @escaping () -> ScriptedPeer?) { self.peer = peer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head):
        request = Request(method: head.method, path: head.uri, headers: head.headers)
      case .body(let part): request?.bytes += Array(buffer: part)
      case .end:
        guard let request, let peer = peer() else { return }
        let loop = context.eventLoop
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        peer.take(request) { answer in
          loop.execute { bound.value.0.write(answer, to: bound.value.1) }
        }
      }
    }

    private func write(_ answer: Answer, to context: ChannelHandlerContext) {
      var head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status))
      head.headers = HTTPHeaders(answer.headers)
      head.headers.replaceOrAdd(name: "Content-Length", value: "\(answer.bytes.count)")
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: answer.bytes)))), promise: nil)
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
  }
}
