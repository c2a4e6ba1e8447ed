import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import RelayCore

/// Looks at the first request of a connection over HTTP/1.1. The connection becomes a WebSocket, or all its bytes go
/// on to `HTTP1`, which is set up then and notices nothing.
///
/// It reads the first request. Then it sets up HTTP/1.1 and is gone, or it asks the authorizer and then is gone or
/// leaving. It is the only handler that sees bytes before their protocol is known, and nothing is read while the
/// authorizer is asked. So no handler ever meets bytes of another protocol, and none is lost.
final class UpgradeHandler<HTTP1: ServerChildChannel>: ChannelInboundHandler, RemovableChannelHandler, Watched {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The purpose of the first request.
  enum Arrival: Sendable {
    case http(HTTP1.Value)
    case socket(SocketRequest)
  }

  private enum Phase {
    case reading
    case settingUp
    /// - Parameter answer: what opens the WebSocket; empty until the authorizer can be asked.
    case asking(answer: HTTPHeaders)
    /// Refused: until the client has gone.
    case leaving
    case gone
  }

  private let terms: SocketTerms
  private let http1: HTTP1
  private let buffers: TLSBuffers?
  private let logger: Logger
  private let loop: LoopWatch
  private let promise: EventLoopPromise<Arrival>
  private var phase = Phase.reading
  private var deadline: NIODeadline
  private var first = FirstRequest()
  /// The bytes behind the head, or all bytes that wait for HTTP/1.1.
  private var rest = ByteBuffer()
  private var isInputClosed = false
  private var hasArrived = false
  private var began = ContinuousClock.now
  private var context: ChannelHandlerContext?
  var watchPlace = 0

  /// - Parameter buffers: TLS's; nil without TLS.
  init(_ terms: SocketTerms, http1: HTTP1, buffers: TLSBuffers?, on eventLoop: any EventLoop, logger: Logger) {
    self.terms = terms
    self.http1 = http1
    self.buffers = buffers
    self.logger = logger
    loop = terms.watch.on(eventLoop)
    promise = eventLoop.makePromise()
    deadline = .now() + terms.times.firstRequest
  }

  /// Fails when the connection ends before.
  var arrival: EventLoopFuture<Arrival> { promise.futureResult }

  // MARK: The first request

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    switch phase {
    case .reading:
      switch first.received(bytes, isAt: terms.authorizer.isAt) {
      case .more: break
      case .elsewhere(let all): setUpHTTP(all, context)
      case .head(let head, let rest): read(head, rest, context)
      }
    case .settingUp, .asking: hold(bytes)
    case .leaving, .gone: break
    }
  }

  /// Bytes in the kernel's hands come all at once when the client closes, whether they are asked for or not.
  private func hold(_ bytes: ByteBuffer) {
    rest.writeImmutableBuffer(bytes)
    if rest.readableBytes > Self.restBytesMax { cut(ChannelError.inputClosed) }
  }

  private static var restBytesMax: Int { 128 << 10 }

  private func setUpHTTP(_ bytes: ByteBuffer, _ context: ChannelHandlerContext) {
    phase = .settingUp
    rest = bytes
    do {
      try ReadBuffers.keepSome(context.channel)
    } catch {
      return cut(error)
    }
    http1.setup(channel: context.channel, logger: logger).assumeIsolated().whenComplete { [self] result in
      switch result {
      case .success(let value): goOn(value)
      case .failure(let error): cut(error)
      }
    }
  }

  private func goOn(_ value: HTTP1.Value) {
    arrive(.success(.http(value)))
    guard let context, case .settingUp = phase else { return }
    phase = .gone
    // The bytes that came here have used up some of the time for the head. Other ways to serve HTTP/1.1 have no such
    // timer.
    (try? context.pipeline.syncOperations.handler(type: HeadTimer.self))?
      .connectionBegan(at: deadline - terms.times.firstRequest)
    context.fireChannelRead(wrapInboundOut(rest))
    context.fireChannelReadComplete()
    if isInputClosed { context.fireUserInboundEventTriggered(ChannelEvent.inputClosed) }
    context.pipeline.syncOperations.removeHandler(self, promise: nil)
  }

  // MARK: Asking the authorizer

  private func read(_ bytes: ByteBuffer, _ rest: ByteBuffer, _ context: ChannelHandlerContext) {
    began = .now
    self.rest = rest
    do {
      let (head, gone) = try HeadReader.read(bytes, limits: terms.headLimits, behind: self, context)
      guard let head else { return refuse(PlainAnswer.badRequest, status: 400) }
      if let problem = SocketHandshake.refusal(of: head) { return refuse(problem, to: head.method) }
      if terms.drain.isDraining { return refuse(.draining) }
      try context.channel.syncOptions?.setOption(.autoRead, value: false)
      ask(head, gone, context)
    } catch {
      cut(error)
    }
  }

  private func ask(_ head: HTTPRequestHead, _ gone: EventLoopFuture<Void>, _ context: ChannelHandlerContext) {
    phase = .asking(answer: [:])
    deadline = .now() + terms.times.admission
    let channel = context.channel
    gone.flatMap { SocketHandshake.fields(for: head, on: channel) }.assumeIsolated().whenComplete { [self] result in
      guard case .asking = phase else { return }
      switch result {
      case .success(let answer):
        phase = .asking(answer: answer)
        arrive(.success(.socket(request(head, channel))))
      case .failure: refuse(Problem(.upgradeRequired))
      }
    }
  }

  private func request(_ head: HTTPRequestHead, _ channel: any Channel) -> SocketRequest {
    let (path, query) = RequestTarget.split(head.uri)
    let headers = HTTPFields(head.headers, splitCookie: false)
    let origin = terms.forwarded.origin(of: channel.remoteAddress.flatMap(ClientAddress.init), headers)
    return SocketRequest(
      path: path, query: query, headers: headers, authority: head.headers["host"].first, origin: origin)
  }

  /// Carries out what the authorizer said. Nothing when the client has gone meanwhile, or has been refused.
  func decide(_ admission: SocketAdmission) {
    guard case .asking(let answer) = phase, hasArrived else { return }
    switch admission {
    case .refused(let problem): refuse(problem)
    case .closed(let close):
      open(answer, .refusing) { socket in Farewell(socket, close) }
    case .admitted(let limits, let session): open(answer, limits, session)
    }
  }

  private func open(
    _ answer: HTTPHeaders, _ limits: SocketLimits, _ session: @Sendable (any Socket) -> any SocketSession
  ) {
    guard let context else { return }
    let pipeline = context.pipeline.syncOperations
    let socket = SocketHandler(
      limits, terms.times, watch: terms.watch, buffers: buffers, eventLoop: context.eventLoop)
    phase = .gone
    record(status: 101)
    context.triggerUserOutboundEvent(ConnectionEvent.isSocket, promise: nil)
    context.writeAndFlush(wrapOutboundOut(PlainAnswer.switching(answer)), promise: nil)
    do {
      try pipeline.addHandler(socket, position: .after(self))
      // The socket sees to its end by itself. Outside of a `ClaimedChannel` there is none, which throws.
      if let guardian = try? pipeline.handler(type: QuiesceGuard.self) {
        pipeline.removeHandler(guardian, promise: nil)
      }
      socket.begin(session)
      if rest.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(rest)) }
      context.fireChannelReadComplete()
      let channel = context.channel
      pipeline.removeHandler(self, promise: nil)
      try channel.syncOptions?.setOption(.autoRead, value: true)
    } catch {
      context.close(promise: nil)
    }
  }

  // MARK: Ends

  private func refuse(_ problem: Problem, to method: HTTPMethod = .GET) {
    let id = RequestID()
    RequestID.$current.withValue(id) {
      terms.failures.note(problem, at: ["method": "GET", "route": "websocket"], in: logger)
    }
    refuse(PlainAnswer.bytes(problem, to: method, id: id), status: problem.kind.status)
  }

  /// Answers, and closes when the client has: closing at once would take the answer back if more bytes had come.
  private func refuse(_ answer: ByteBuffer, status: Int) {
    guard let context else { return }
    phase = .leaving
    deadline = .now() + terms.times.closing
    rest = ByteBuffer()
    record(status: status)
    arrive(.failure(ChannelError.inputClosed))
    context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
    context.close(mode: .output, promise: nil)
    do {
      try context.channel.syncOptions?.setOption(.autoRead, value: true)
    } catch {
      context.close(promise: nil)
    }
  }

  private func cut(_ error: any Error) {
    phase = .gone
    arrive(.failure(error))
    context?.close(promise: nil)
  }

  private func arrive(_ result: Result<Arrival, any Error>) {
    guard !hasArrived else { return }
    hasArrived = true
    promise.completeWith(result)
  }

  private func record(status: Int) {
    terms.metrics.record(method: .get, path: "websocket", status: status, elapsed: .now - began)
  }

  // MARK: The connection

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    loop.add(self)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    loop.remove(self)
    arrive(.failure(ChannelError.inputClosed))
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    phase = .gone
    arrive(.failure(ChannelError.inputClosed))
    context.fireChannelInactive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch (event, phase) {
    case (ChannelEvent.inputClosed, .reading), (ChannelEvent.inputClosed, .asking),
      (ChannelEvent.inputClosed, .leaving):
      cut(ChannelError.inputClosed)
    case (ChannelEvent.inputClosed, .settingUp): isInputClosed = true
    case (is ChannelShouldQuiesceEvent, .reading): cut(ChannelError.inputClosed)
    case (is ChannelShouldQuiesceEvent, .asking): refuse(.draining)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { cut(error) }

  func look(now: NIODeadline) {
    guard now >= deadline else { return }
    switch phase {
    case .reading where !first.isEmpty: refuse(Problem(.requestTimeout))
    case .reading, .leaving: cut(ChannelError.inputClosed)
    case .asking: refuse(Problem(.unavailable, retryAfter: .seconds(1)))
    case .settingUp, .gone: break
    }
  }
}

extension Problem {
  /// The process stops: another one serves.
  fileprivate static var draining: Problem { Problem(.unavailable, retryAfter: .seconds(1)) }
}

extension SocketLimits {
  /// The limits of a WebSocket that is closed at once.
  fileprivate static let refusing = SocketLimits(
    messageBytesMax: 1024, burst: 10, perSecond: 1, idle: .seconds(10))
}

/// The session of a WebSocket that is opened in order to say why it is closed.
private final class Farewell: SocketSession {
  private let socket: any Socket
  private let reason: SocketClose

  init(_ socket: any Socket, _ reason: SocketClose) {
    self.socket = socket
    self.reason = reason
  }

  func opened() { socket.close(reason) }
  func received(_ message: SocketMessage) {}
  func becameWritable() {}
  func closed() {}
}
