import HTTPTypes
import NIOCore
import NIOHTTP1
import RelayCore

/// Decides behind which answer a connection over HTTP/1.1 ends (RFC 9112, 9.3 and 9.6), says so in that answer, and
/// ends the connection behind it whether the client does or not.
///
/// The last answer is one to a request that asks for it, by any of the tokens of its `Connection` or by its version;
/// one that comes before all of its request has; any while the process drains; and one to a request for an upgrade,
/// behind which NIO's parser reads nothing any more. Hummingbird (2.28, `HTTPChannelHandler.handleHTTP`) knows a
/// `Connection` of exactly `close`, does not answer it, and waits without a limit for the rest of a request that it
/// has answered.
///
/// Upgrades that come here are not carried out: those to WebSockets are `UpgradeHandler`'s, which sees the first
/// request of a connection. A later one for a WebSocket is not answered: proxies that use connections again, and sent
/// it over one that had been idle, try again over a fresh one. Stands between NIO's parser and the codec of HTTP's
/// types, which do not tell the version.
final class FinalAnswers: ChannelDuplexHandler, RemovableChannelHandler, BodyWatching {
  typealias InboundIn = HTTPServerRequestPart
  typealias InboundOut = HTTPServerRequestPart
  typealias OutboundIn = HTTPServerResponsePart
  typealias OutboundOut = HTTPServerResponsePart

  /// How much of the input is still taken. Requests pipelined behind the last one are lost, as on any connection that
  /// is closed. The rest of a refused request is read and forgotten; then all is heard again.
  private enum Hearing { case all, restOfRequest, restOfRefused, nothing }

  private let drain: DrainState?
  private let authorizer: (any SocketAuthorizer)?
  private let load: RequestLoad?
  private let linger: TimeAmount
  private let taking: TakingWatch
  /// Requests that are not answered whole, the one that is being answered first.
  private var open = CircularBuffer<Ask>()
  private var hearing = Hearing.all
  private var isReading = false
  /// Heads of requests that have come.
  private(set) var headsRead = 0
  /// Whether the head of an answer is written, and its end is not.
  private var isAnswering = false
  /// Whether the answer that is being written is the last.
  private var isLast = false
  /// Nothing is written any more.
  private var isOver = false
  private var owesContinue = false
  private(set) var context: ChannelHandlerContext?
  var bodies: BodyWatch

  /// - Parameters:
  ///   - load: says whether there is room for a request; nil: there always is.
  ///   - times: of bodies, and for the client to close behind the last answer.
  init(drain: DrainState?, authorizer: (any SocketAuthorizer)?, load: RequestLoad?, times: RequestTimes) {
    self.drain = drain
    self.authorizer = authorizer
    self.load = load
    linger = times.linger
    taking = TakingWatch(times.taking)
    bodies = BodyWatch(times.body)
  }

  /// Whether the next byte begins a request.
  var awaitsHead: Bool { hearing == .all && !isReading }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) {
    bodies.ended()
    leaveAll()
    self.context = nil
  }

  func channelInactive(context: ChannelHandlerContext) {
    bodies.ended()
    leaveAll()
    context.fireChannelInactive()
  }

  /// Nobody waits for the answers that are not written.
  private func leaveAll() {
    for index in open.indices { open[index].leave(load) }
  }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard hearing != .nothing else { return }
    switch unwrapInboundIn(data) {
    case .head(let head): headCame(head, data, context)
    case .body(let part):
      owesContinue = false
      bodies.received(part.readableBytes)
      if hearing != .restOfRefused { context.fireChannelRead(data) }
    case .end: endCame(data, context)
    }
  }

  private func endCame(_ data: NIOAny, _ context: ChannelHandlerContext) {
    bodies.ended()
    isReading = false
    owesContinue = false
    guard hearing != .restOfRefused else { return hearing = .all }
    if !open.isEmpty { open[open.index(before: open.endIndex)].isWhole = true }
    enterFirst()
    if hearing == .restOfRequest { hearing = .nothing }
    context.fireChannelRead(data)
  }

  /// The requests of a connection are answered one at a time: only the first one is work of the relay's, once it is
  /// whole and until it is being answered. One that is answered before it is whole never is.
  private func enterFirst() {
    if !isAnswering, !open.isEmpty { open[open.startIndex].enter(load) }
  }

  private func headCame(_ head: HTTPRequestHead, _ data: NIOAny, _ context: ChannelHandlerContext) {
    guard hearing == .all else { return hearing = .nothing }
    // They are in memory, whether the client reads the answers or not.
    guard open.count < Self.openMax else { return endBehindOpen() }
    headsRead += 1
    isReading = true
    if headsRead == 1 { context.triggerUserOutboundEvent(ConnectionEvent.requestCame, promise: nil) }
    let ask = Ask(head)
    guard HostField.isProper(head.headers["host"], isOptional: ask.isOld) else { return refuse(Problem(.invalidHost)) }
    if head.headers["upgrade"].contains(where: { $0.lowercased().contains("websocket") }), let authorizer,
      authorizer.isAt(RequestTarget.split(head.uri).path)
    {
      return context.close(promise: nil)
    }
    bodies.headCame()
    // The answer would overtake those of requests before it.
    if open.isEmpty, let load, !load.admits() { return turnAway(head, ask) }
    open.append(ask)
    if ask.isFinal { hearing = .restOfRequest }
    owesContinue = ask.expectsContinue
    guard ask.speaksOfConnection else { return context.fireChannelRead(data) }
    // The meaning of these fields is seen to here.
    var passed = head
    passed.headers.remove(name: "upgrade")
    passed.headers.remove(name: "connection")
    context.fireChannelRead(wrapInboundOut(.head(passed)))
  }

  /// Nothing of the body came with the head: the client waits to be told (RFC 9110, 10.1.1), which Hummingbird does
  /// not.
  func channelReadComplete(context: ChannelHandlerContext) {
    if owesContinue, open.count == 1, !isAnswering, !isOver {
      owesContinue = false
      context.writeAndFlush(wrapOutboundOut(.head(.init(version: .http1_1, status: .continue))), promise: nil)
    }
    bodyReadCompleted()
    context.fireChannelReadComplete()
  }

  func read(context: ChannelHandlerContext) {
    bodies.isAskedFor()
    context.read()
  }

  // MARK: Answers

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    guard !isOver else {
      promise?.fail(ChannelError.outputClosed)
      return
    }
    switch unwrapOutboundIn(data) {
    case .head(let head) where head.status.code < 200: context.write(data, promise: promise)
    case .head(var head):
      isAnswering = true
      if !open.isEmpty { open[open.startIndex].leave(load) }
      finish(&head)
      context.write(wrapOutboundOut(.head(head)), promise: promise)
    case .body(let body):
      taking.written(body.readableBytes)
      context.write(data, promise: promise)
    case .end:
      isAnswering = false
      if !open.isEmpty { open.removeFirst() }
      guard isLast else {
        enterFirst()
        return context.write(data, promise: promise)
      }
      end(data, promise, context)
    }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    taking.writabilityChanged(context)
    context.fireChannelWritabilityChanged()
  }

  /// Says in the head of an answer what becomes of the connection.
  private func finish(_ head: inout HTTPResponseHead) {
    let ask = open.first
    // If there is an answer without a request, the request could not be parsed. A process that drains closes behind
    // the last of several pipelined requests.
    isLast = ask.map { $0.isFinal || !$0.isWhole } ?? true || open.count <= 1 && drain?.isDraining == true
    if ask?.isOld == true, !head.headers.contains(name: "content-length") {
      // It does not know chunks: the connection's end is the answer's.
      head.version = .http1_0
      isLast = true
    }
    if isLast {
      head.headers.replaceOrAdd(name: "connection", value: "close")
    } else if ask?.isOld == true {
      head.headers.replaceOrAdd(name: "connection", value: "keep-alive")
    }
  }

  private func end(_ data: NIOAny, _ promise: EventLoopPromise<Void>?, _ context: ChannelHandlerContext) {
    isOver = true
    hearing = .nothing
    let written = promise ?? context.eventLoop.makePromise()
    let channel = context.channel
    written.futureResult.whenComplete { [linger] _ in
      channel.eventLoop.scheduleTask(in: linger) { channel.close(promise: nil) }
    }
    context.writeAndFlush(data, promise: written)
    // The client closes the rest: with bytes of it unread, closing all would take the answer back.
    context.close(mode: .output, promise: nil)
  }

  // MARK: Ends that are not the application's

  func bodyIsTooSlow(_ context: ChannelHandlerContext) {
    if hearing == .restOfRefused { return context.close(promise: nil) }
    // Answered already, its rest has no more than `linger`.
    guard !open.isEmpty else { return }
    guard open.count == 1, !isAnswering else { return context.close(promise: nil) }
    open.removeAll()
    refuse(Problem(.requestTimeout))
  }

  /// The next request's head is not there, although its time is over.
  /// - Parameter hasBegun: whether some of it is: what says nothing at all is not answered.
  func headIsLate(hasBegun: Bool) {
    guard let context, !isOver else { return }
    guard open.isEmpty, hasBegun else {
      return open.isEmpty ? context.close(promise: nil) : endBehindOpen()
    }
    refuse(Problem(.requestTimeout))
  }

  /// Answers in place of the application, which never hears of the request, or is not heard any more.
  private func refuse(_ problem: Problem) {
    guard let context, open.isEmpty else { return endBehindOpen() }
    hearing = .nothing
    isReading = false
    writeRefusal(problem, isLast: true, context)
    end(wrapOutboundOut(.end(nil)), nil, context)
  }

  /// There is no room for a request. The connection goes on behind a short one: a client that had to connect anew would
  /// cost more than its request.
  private func turnAway(_ head: HTTPRequestHead, _ ask: Ask) {
    guard !ask.isFinal, !ask.isOld, !ask.expectsContinue, drain?.isDraining != true, Self.isShort(head), let context
    else { return refuse(RequestLoad.refusal) }
    hearing = .restOfRefused
    writeRefusal(RequestLoad.refusal, isLast: false, context)
    context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
  }

  private func writeRefusal(_ problem: Problem, isLast: Bool, _ context: ChannelHandlerContext) {
    let (fields, body) = problem.content
    var headers = HTTPHeaders(fields.map { ($0.name.canonicalName, $0.value) })
    headers.add(name: "content-length", value: String(body.count))
    headers.add(name: "date", value: PlainAnswer.date)
    if isLast { headers.add(name: "connection", value: "close") }
    let status = HTTPResponseStatus(statusCode: problem.kind.status)
    context.write(wrapOutboundOut(.head(.init(version: .http1_1, status: status, headers: headers))), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
  }

  /// Whether the rest of a request is worth reading for the sake of its connection.
  private static func isShort(_ head: HTTPRequestHead) -> Bool {
    guard !head.headers.contains(name: "transfer-encoding") else { return false }
    guard let length = head.headers.first(name: "content-length") else { return true }
    return Int(length).map { $0 <= forgottenBytesMax } ?? false
  }
  private static let forgottenBytesMax = 256 << 10
  /// More than a client that pipelines has under way.
  private static let openMax = 32

  /// The answers that are under way come first; nothing more is heard.
  private func endBehindOpen() {
    hearing = .nothing
    guard !open.isEmpty else { return }
    open[open.index(before: open.endIndex)].isFinal = true
    if isAnswering, open.count == 1 { isLast = true }
  }
}

/// The words of a request about its connection.
private struct Ask {
  /// HTTP/1.0, whose connections end behind the answer unless the request asks otherwise.
  let isOld: Bool
  let expectsContinue: Bool
  /// By fields that are for this connection alone.
  let speaksOfConnection: Bool
  var isFinal: Bool
  var isWhole = false
  /// Whether the edge's load has it.
  private var isCounted = false

  init(_ head: HTTPRequestHead) {
    isOld = head.version.major == 1 && head.version.minor == 0
    let tokens = head.headers[canonicalForm: "connection"].map { $0.lowercased() }
    let isUpgrade = head.headers.contains(name: "upgrade")
    isFinal = tokens.contains("close") || isOld && !tokens.contains("keep-alive") || isUpgrade
    speaksOfConnection = isUpgrade || !tokens.isEmpty
    expectsContinue = !isOld && head.headers["expect"].contains { $0.lowercased() == "100-continue" }
  }

  mutating func enter(_ load: RequestLoad?) {
    guard isWhole, !isCounted else { return }
    load?.began()
    isCounted = true
  }

  /// It is being answered, or its client is gone.
  mutating func leave(_ load: RequestLoad?) {
    if isCounted { load?.ended() }
    isCounted = false
  }
}
