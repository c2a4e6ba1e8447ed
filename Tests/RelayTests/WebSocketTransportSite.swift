import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
import Logging
import NIOCore
import NIOHTTP1
import NIOSSL
import RelayCore
import RelayHTTP
import ServiceLifecycle
import Synchronization
import TestSupport

/// A listener in this process, as the clients' one is built, with an authorizer of the tests' own: for the transport
/// alone.
struct TransportSite: Sendable {
  let port: Int
  let authorizer: EchoAuthorizer
  let drain: DrainState
  let sockets: SocketWatch
  /// The authority of TLS; nil without.
  let authority: TestAuthority?
  private let stop: @Sendable () async -> Void

  /// - Parameters:
  ///   - isSecure: TLS with ALPN, as the clients' listener has it.
  ///   - load: says whether there is room for a request; nil: there always is.
  ///   - admit: whose sessions there are; nil: those that echo.
  static func with<Result: Sendable>(
    isSecure: Bool = false, limits: SocketLimits = EchoAuthorizer.generous, times: SocketTimes = SocketTimes(),
    requests: RequestTimes = RequestTimes(), load: RequestLoad? = nil,
    admit: (@Sendable (SocketRequest) async -> SocketAdmission)? = nil,
    _ body: @escaping @Sendable (TransportSite) async throws -> Result
  ) async throws -> Result {
    let authority = isSecure ? try TestAuthority() : nil
    let (authorizer, drain, sockets) = (EchoAuthorizer(limits, admit), DrainState(), SocketWatch())
    let port = Mutex<Int?>(nil)
    let context = try authority.map { try serverContext($0) }
    let terms = SocketTerms(
      authorizer: authorizer, forwarded: ForwardedMiddleware(proxies: TrustedProxies([]), isSecure: isSecure),
      drain: drain,
      watch: sockets, headLimits: .init(), times: times)
    let application = Application(
      router: router(authorizer), server: server(terms, requests, authorizer, drain, load, context),
      configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
      onServerRunning: { channel in port.withLock { $0 = channel.localAddress?.port } }, logger: quiet)
    let group = ServiceGroup(
      configuration: .init(services: [SocketService(application, sockets: sockets)], logger: quiet))
    return try await withThrowingTaskGroup(of: Void.self, returning: Result.self) { tasks in
      tasks.addTask { try await group.run() }
      let found = try await eventually("the listener listens") { port.withLock { $0 } }
      let site = TransportSite(
        port: found, authorizer: authorizer, drain: drain, sockets: sockets, authority: authority,
        stop: { await group.triggerGracefulShutdown() })
      let outcome: Swift.Result<Result, any Error>
      do {
        outcome = .success(try await body(site))
      } catch {
        outcome = .failure(error)
      }
      await group.triggerGracefulShutdown()
      try await tasks.waitForAll()
      return try outcome.get()
    }
  }

  /// A WebSocket that echoes.
  func open(_ path: String = "/socket/", headers: [(String, String)] = []) async throws -> RawSocket {
    try await RawSocket.open(path, on: port, headers: headers, trusting: authority)
  }

  func connect() async throws -> RawSocket { try await RawSocket.connect(to: port, trusting: authority) }

  /// Sends `request` over a connection of its own. - Returns: the answer.
  func ask(_ request: [UInt8]) async throws -> RawAnswer {
    let socket = try await connect()
    try await socket.send(request)
    let answer = try await socket.answer()
    await socket.close()
    return answer
  }

  /// Stops the listener gracefully; returns at once.
  func stopListening() async { await stop() }

  /// How often sessions of this site ended, once all of them have.
  func ends(of count: Int) async throws -> [SocketEnd] {
    try await eventually("\(count) sessions have ended") { authorizer.ends.count >= count ? () : nil } as Void
    return authorizer.ends
  }

  private static let quiet = Logger(label: "transport") { _ in SwiftLogNoOpLogHandler() }

  /// - Parameter authorizer: requests for `held` and `begun` wait until it lets them go on.
  private static func router(_ authorizer: EchoAuthorizer) -> Router<ClientContext> {
    let router = Router(context: ClientContext.self)
    router.add(middleware: ProblemMiddleware(edge: "transport"))
    router.get("/v1/hello") { request, _ in
      ByteBuffer(string: request.headers[.upgrade] == nil ? "hello" : "upgrade")
    }
    router.put("/v1/refuse") { _, _ -> ByteBuffer in throw Problem(.unsupportedMediaType) }
    router.get("/v1/stream") { _, _ in
      Response(
        status: .ok,
        body: ResponseBody { writer in
          for _ in 0..<16 { try await writer.write(ByteBuffer(repeating: UInt8(ascii: "s"), count: 64 << 10)) }
          try await writer.finish(nil)
        })
    }
    // Answered whole, and in part, before it is let go on.
    router.get("/v1/held") { _, _ in
      try await authorizer.released()
      return ByteBuffer(string: "held")
    }
    router.get("/v1/begun") { _, _ in
      Response(
        status: .ok,
        body: ResponseBody { writer in
          try await writer.write(ByteBuffer(string: "first"))
          try await authorizer.released()
          try await writer.finish(nil)
        })
    }
    router.put("/v1/echo") { request, _ in try await request.body.collect(upTo: 8 << 20) }
    return router
  }

  private static func server(
    _ terms: SocketTerms, _ times: RequestTimes, _ authorizer: EchoAuthorizer, _ drain: DrainState,
    _ load: RequestLoad?, _ context: NIOSSLContext?
  ) -> HTTPServerBuilder {
    HTTPServerBuilder { responder in
      let http1 = SocketUpgradeChannel(
        EdgeHTTP1(
          responder: responder, idleTimeout: .seconds(90), times: times, drain: drain, authorizer: authorizer,
          load: load),
        terms)
      guard let context else { return ClaimedChannel(http1) }
      return ClaimedChannel(
        ALPNChannel(
          tls: { _, _ in NIOSSLServerHandler(context: context) }, handshakeTimeout: .seconds(30), http1: http1,
          http2: EdgeHTTP2.channel(
            responder: responder, idleTimeout: .seconds(90), stalledTimeout: .seconds(30), times: times, load: load),
          times: times))
    }
  }

  private static func serverContext(_ authority: TestAuthority) throws -> NIOSSLContext {
    let leaf = try authority.leaf(relay: nil)
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: try leaf.chain.map { .certificate($0) }, privateKey: .privateKey(try leaf.privateKey))
    configuration.applicationProtocols = ["h2", "http/1.1"]
    return try NIOSSLContext(configuration: configuration)
  }
}

/// Opens WebSockets at `/socket`, and answers as the query says.
final class EchoAuthorizer: SocketAuthorizer {
  static let generous = SocketLimits(
    messageBytesMax: 256 << 10, burst: 100_000, perSecond: 100_000, idle: .seconds(300))

  private struct State {
    var asked: [SocketRequest] = []
    var opened = 0
    var ends: [SocketEnd] = []
    /// By floods.
    var bytes = 0
    var answered = 0
    var isHeld = true
  }
  private let limits: SocketLimits
  private let others: (@Sendable (SocketRequest) async -> SocketAdmission)?
  private let state = Mutex(State())

  init(_ limits: SocketLimits, _ others: (@Sendable (SocketRequest) async -> SocketAdmission)?) {
    self.limits = limits
    self.others = others
  }

  var asked: [SocketRequest] { state.withLock { $0.asked } }
  var opened: Int { state.withLock { $0.opened } }
  var ends: [SocketEnd] { state.withLock { $0.ends } }

  var answered: Int { state.withLock { $0.answered } }
  var flooded: Int { state.withLock { $0.bytes } }

  /// Lets `?hold` requests go on.
  func release() { state.withLock { $0.isHeld = false } }

  func released() async throws {
    try await eventually("the test lets it go on") { self.state.withLock { !$0.isHeld } }
  }

  func isAt(_ path: Substring) -> Bool { path == "/socket" || path == "/socket/" }

  func admit(_ request: SocketRequest) async -> SocketAdmission {
    state.withLock { $0.asked.append(request) }
    if let others { return await others(request) }
    switch request.query {
    case "unauthorized": return .refused(Problem(.unauthorized))
    case "busy": return .refused(Problem(.unavailable, retryAfter: .seconds(7)))
    case "closed": return .closed(.unauthorized)
    case "hold":
      do {
        try await released()
      } catch {
        return .refused(Problem(.internalError))
      }
    default: break
    }
    return .admitted(limits: limits) { socket in EchoSession(socket, self) }
  }

  fileprivate func began() { state.withLock { $0.opened += 1 } }
  fileprivate func heardAnswer() { state.withLock { $0.answered += 1 } }
  fileprivate func flooded(_ bytes: Int) { state.withLock { $0.bytes += bytes } }
  fileprivate func ended(_ end: SocketEnd?) { state.withLock { $0.ends.append(end ?? .session) } }
}

/// Sends every message back. `answer` answers something of ours, `close` closes, `flood` sends as much as there is
/// room for, ever again.
final class EchoSession: SocketSession {
  private let socket: any Socket
  private let authorizer: EchoAuthorizer
  private var isFlooding = false
  private var isOver = false

  init(_ socket: any Socket, _ authorizer: EchoAuthorizer) {
    self.socket = socket
    self.authorizer = authorizer
  }

  func opened() { authorizer.began() }

  func received(_ message: SocketMessage) {
    // None may come behind `closed`.
    if isOver { authorizer.began() }
    switch message {
    case .text(let text) where text == ByteBuffer(string: "close"): socket.close(.policy)
    case .text(let text) where text == ByteBuffer(string: "answer"):
      socket.refund()
      authorizer.heardAnswer()
    case .text(let text) where text == ByteBuffer(string: "flood"):
      isFlooding = true
      flood()
    default: socket.send(message)
    }
  }

  func becameWritable() { if isFlooding { flood() } }

  func closed() {
    isOver = true
    authorizer.ended(socket.end)
  }

  private func flood() {
    while socket.isWritable {
      socket.send(.binary(ByteBuffer(repeating: 7, count: 4096)))
      authorizer.flooded(4096)
    }
  }
}
