// A peer of another make: real TLS under a CA of its own, and whatever answers a test wants.

import AsyncHTTPClient
import Federation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

final class ScriptedPeer: Sendable {
  struct Request: Sendable {
    let method: HTTPMethod
    let path: String
    var headers: HTTPHeaders
    var body: String
  }
  struct Answer: Sendable {
    var status: Int
    var headers: [(String, String)] = []
    var body = ""
  }

  let authority: TestAuthority
  private let state = Mutex<(requests: [Request], answer: Answer?)>(([], nil))
  private let channel: any Channel

  var url: String { "https://127.0.0.1:\(channel.localAddress?.port ?? 0)" }
  var requests: [Request] { state.withLock { $0.requests } }
  /// - Parameter answer: to every request from now on; nil leaves them without one.
  func answer(with answer: Answer?) { state.withLock { $0.answer = answer } }
  func answer(_ status: Int, _ body: String = "", headers: [(String, String)] = []) {
    answer(with: Answer(status: status, headers: headers, body: body))
  }

  /// Listens until `close`. Answers nothing at first.
  static func start(_ name: String) async throws -> ScriptedPeer {
    let authority = try TestAuthority(name)
    let leaf = try authority.leaf(relay: name)
    let tls = try NIOSSLContext(
      configuration: .makeServerConfiguration(
        certificateChain: leaf.chain.map { .certificate($0) }, privateKey: .privateKey(leaf.privateKey)))
    let peer = Mutex<ScriptedPeer?>(nil)
    let channel = try await ServerBootstrap(group: HTTPClient.defaultEventLoopGroup)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls))
          try channel.pipeline.syncOperations.configureHTTPServerPipeline()
          try channel.pipeline.syncOperations.addHandler(Handler { peer.withLock { $0 } })
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    let started = ScriptedPeer(authority: authority, channel: channel)
    peer.withLock { $0 = started }
    return started
  }

  private init(authority: TestAuthority, channel: any Channel) {
    self.authority = authority
    self.channel = channel
  }

  func close() async throws { try await channel.close() }

  private func take(_ request: Request) -> Answer? {
    state.withLock { state in
      state.requests.append(request)
      return state.answer
    }
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
        request = Request(method: head.method, path: head.uri, headers: head.headers, body: "")
      case .body(let part): request?.body += String(buffer: part)
      case .end:
        guard let request, let answer = peer()?.take(request) else { return }
        var head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: answer.status))
        head.headers = HTTPHeaders(answer.headers)
        head.headers.replaceOrAdd(name: "Content-Length", value: "\(answer.body.utf8.count)")
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: answer.body)))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
      }
    }
  }
}

/// Runs the relay `beta` with the scripted peers called `names`, in that order.
func withScriptedPeers(
  _ names: [String], limits: PeerLimits = .patient,
  _ body: @Sendable (_ beta: TestRelay, _ peers: [ScriptedPeer]) async throws -> Void
) async throws {
  try await withRelay("beta", limits: limits) { beta in
    var peers: [ScriptedPeer] = []
    for name in names {
      let peer = try await ScriptedPeer.start(name)
      peers.append(peer)
      try await save(peer.authority, as: name, at: beta, url: peer.url)
    }
    let result: Result<Void, any Error>
    do {
      result = .success(try await body(beta, peers))
    } catch {
      result = .failure(error)
    }
    for peer in peers { try await peer.close() }
    try result.get()
  }
}
