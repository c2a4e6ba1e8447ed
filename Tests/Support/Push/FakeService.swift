// A provider's server, over TLS and HTTP/1.1 or HTTP/2, that answers what a test wants.

import Foundation
import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import NIOSSL
import RelayCore
import Synchronization

package struct FakeRequest: Sendable {
  package let method: String
  package let path: String
  /// By their names in lower case.
  package var headers: [String: String]
  package var body: [UInt8] = []
  package var text: String { String(decoding: body, as: UTF8.self) }

  /// The body as a JSON object; empty for anything else.
  package var json: [String: Any] {
    // Tests look for what must be there.
    (try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]) ?? [:]
  }
}

package enum FakeAnswer: Sendable {
  case answer(Int, String = "", headers: [String: String] = [:])
  /// None, ever.
  case silence
  /// The connection ends.
  case hangUp
  /// The answer, and the word that the connection takes no more (HTTP/2).
  case farewell(Int)
}

/// Listens on a free port of the loopback address until `close`.
package final class FakeService: Sendable {
  fileprivate struct State {
    var requests: [FakeRequest] = []
    var requestsMax = Int.max
    var connections: [any Channel] = []
    var accepted = 0
    /// Taken in order, each by the next request that holds its text.
    var script: [(text: String?, answer: FakeAnswer)] = []
    /// When the script is used up.
    var usual: @Sendable (FakeRequest) -> FakeAnswer
    var pause: Duration = .zero
    /// Answers that wait for `release`; nil: none has to.
    var held: [@Sendable () -> Void]?
  }

  package let port: Int
  private let state: Shared
  private let listener: any Channel

  fileprivate final class Shared: Sendable {
    /// Says what is wrong with a request; its answer goes before the script.
    let check: @Sendable (FakeRequest) -> FakeAnswer?
    private let state: Mutex<State>

    init(
      check: @escaping @Sendable (FakeRequest) -> FakeAnswer?, usual: @escaping @Sendable (FakeRequest) -> FakeAnswer
    ) {
      self.check = check
      state = Mutex(State(usual: usual))
    }

    func withLock<Value: Sendable>(_ body: @Sendable (inout sending State) -> Value) -> Value {
      state.withLock { body(&$0) }
    }

    func take(_ request: FakeRequest) -> (FakeAnswer, Duration) {
      let checked = check(request)
      return withLock { state in
        if state.requests.count < state.requestsMax { state.requests.append(request) }
        if let checked { return (checked, state.pause) }
        let place = state.script.firstIndex { $0.text.map { request.text.contains($0) } ?? true }
        return (place.map { state.script.remove(at: $0).answer } ?? state.usual(request), state.pause)
      }
    }

    /// Calls `answer` when answers are not held.
    func whenReleased(_ answer: @escaping @Sendable () -> Void) {
      let isHeld = withLock { state in
        state.held?.append(answer)
        return state.held != nil
      }
      if !isHeld { answer() }
    }
  }

  /// - Parameters:
  ///   - speaksHTTP2: and nothing else.
  ///   - clients: signs the certificates that clients must show; nil asks for none.
  ///   - usual: what is answered when the script is used up.
  ///   - check: what is answered whatever the script says.
  package init(
    _ files: PushFiles, speaksHTTP2: Bool = false, clients: TestAuthority? = nil,
    usual: @escaping @Sendable (FakeRequest) -> FakeAnswer = { _ in .answer(200) },
    check: @escaping @Sendable (FakeRequest) -> FakeAnswer? = { _ in nil }
  ) async throws {
    let leaf = try files.serverLeaf()
    var tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: try leaf.chain.map { .certificate($0) }, privateKey: .privateKey(try leaf.privateKey))
    tls.applicationProtocols = [speaksHTTP2 ? "h2" : "http/1.1"]
    if let clients {
      tls.certificateVerification = .noHostnameVerification
      tls.trustRoots = .certificates([try NIOSSLCertificate(bytes: clients.der, format: .der)])
    }
    let context = try NIOSSLContext(configuration: tls)
    let shared = Shared(check: check, usual: usual)
    state = shared
    listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelInitializer { channel in
        shared.withLock { state in
          state.connections.append(channel)
          state.accepted += 1
        }
        channel.closeFuture.whenComplete { _ in
          shared.withLock { $0.connections.removeAll { $0 === channel } }
        }
        return channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          try pipeline.addHandler(NIOSSLServerHandler(context: context))
          guard speaksHTTP2 else {
            try pipeline.configureHTTPServerPipeline()
            return try pipeline.addHandler(Handler(shared, connection: channel))
          }
          _ = try pipeline.configureHTTP2Pipeline(
            mode: .server, connectionConfiguration: .init(), streamConfiguration: .init()
          ) { stream in
            stream.eventLoop.makeCompletedFuture {
              try stream.pipeline.syncOperations.addHandlers([
                HTTP2FramePayloadToHTTP1ServerCodec(), Handler(shared, connection: channel),
              ])
            }
          }
        }
      }
      .bind(host: "127.0.0.1", port: 0).get()
    guard let port = listener.localAddress?.port else { throw TestFailure("the service has no port") }
    self.port = port
  }

  /// Under the name that its certificate has beside the address.
  package var url: String { "https://localhost:\(port)" }
  package var requests: [FakeRequest] { state.withLock { $0.requests } }
  package var connectionCount: Int { state.withLock { $0.connections.count } }
  /// Connections so far.
  package var acceptedCount: Int { state.withLock { $0.accepted } }

  /// The next answers, in order.
  package func answer(_ answers: FakeAnswer...) { state.withLock { $0.script += answers.map { (nil, $0) } } }
  /// The next answer to a request whose body holds `text`, whoever else asks before.
  package func answer(_ answer: FakeAnswer, to text: String) { state.withLock { $0.script.append((text, answer)) } }
  /// All answers that are not in the script.
  package func answerAlways(_ answer: FakeAnswer) { state.withLock { $0.usual = { _ in answer } } }
  /// All answers that are not in the script; only the first `requestsMax` requests are kept.
  package func answerAlways(
    requestsMax: Int = .max, by answer: @escaping @Sendable (FakeRequest) -> FakeAnswer
  ) {
    state.withLock { state in
      state.usual = answer
      state.requestsMax = requestsMax
    }
  }
  /// How long each answer takes.
  package func pause(_ pause: Duration) { state.withLock { $0.pause = pause } }
  /// No answer goes out before `release`.
  package func hold() { state.withLock { $0.held = $0.held ?? [] } }
  package func release() {
    let held = state.withLock { state in
      defer { state.held = nil }
      return state.held ?? []
    }
    for answer in held { answer() }
  }

  /// Ends the connections that there are, with what is under way on them.
  package func dropConnections() {
    for connection in state.withLock({ $0.connections }) { connection.close(promise: nil) }
  }
  /// Says on every connection that it takes no more, and which stream is the last that is served (HTTP/2, GOAWAY).
  /// - Parameter last: 1 is the first request of a connection, 3 the second, and so on; 0 none.
  package func announceEnd(last: Int, isFault: Bool = false) {
    let frame = HTTP2Frame(
      streamID: .rootStream,
      payload: .goAway(
        lastStreamID: HTTP2StreamID(last), errorCode: isFault ? .internalError : .noError, opaqueData: nil))
    for connection in state.withLock({ $0.connections }) { connection.writeAndFlush(frame, promise: nil) }
  }

  /// Takes no more connections and ends those that there are. May be called again.
  package func close() async throws {
    if listener.isActive { try await listener.close().get() }
    for connection in state.withLock({ $0.connections }) { connection.close(promise: nil) }
  }

  private final class Handler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart
    private let shared: Shared
    private let connection: any Channel
    private var request: FakeRequest?

    init(_ shared: Shared, connection: any Channel) {
      self.shared = shared
      self.connection = connection
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head(let head):
        var headers: [String: String] = [:]
        for field in head.headers { headers[field.name.lowercased()] = field.value }
        request = FakeRequest(method: head.method.rawValue, path: head.uri, headers: headers)
      case .body(let part): request?.body += Array(buffer: part)
      case .end:
        guard let request else { return }
        let (answer, pause) = shared.take(request)
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        let loop = context.eventLoop
        shared.whenReleased {
          loop.scheduleTask(in: TimeAmount(pause)) { bound.value.0.carryOut(answer, bound.value.1) }
        }
      }
    }

    private func carryOut(_ answer: FakeAnswer, _ context: ChannelHandlerContext) {
      switch answer {
      case .silence: break
      case .hangUp: connection.close(promise: nil)
      case .answer(let status, let body, let headers): write(status, body, headers, context)
      case .farewell(let status):
        write(status, "", [:], context)
        let farewell = HTTP2Frame.FramePayload.goAway(lastStreamID: .maxID, errorCode: .noError, opaqueData: nil)
        connection.writeAndFlush(HTTP2Frame(streamID: .rootStream, payload: farewell), promise: nil)
      }
    }

    private func write(_ status: Int, _ body: String, _ headers: [String: String], _ context: ChannelHandlerContext) {
      var head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status))
      for (name, value) in headers { head.headers.add(name: name, value: value) }
      head.headers.replaceOrAdd(name: "content-length", value: "\(body.utf8.count)")
      context.write(wrapOutboundOut(.head(head)), promise: nil)
      if !body.isEmpty { context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: body)))), promise: nil) }
      context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
  }
}
