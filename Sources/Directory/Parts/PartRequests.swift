import Metrics
import NIOCore
import NIOExtras
import NIOHTTP1
import RelayCore
import RelayHTTP
import RelayMetrics

/// Answers processes that ask for a part. Their requests are many and alike: no router stands before it.
struct PartResponder: Sendable {
  let drain: DrainState
  private let lookUp: PartLookUp
  private let held: Gauge
  private let authorization: [UInt8]

  init(_ view: DirectoryView, key: SecretBytes, drain: DrainState) {
    self.drain = drain
    lookUp = PartLookUp(view)
    held = RelayMetric.parts.entries.gauge(PartLabel(value: view.part.text))
    authorization = Array(PartClient.authorization(by: key).utf8)
  }

  /// - Returns: the status of a request whose body is of no use; nil for one that is to be answered.
  func refusal(of head: HTTPRequestHead) -> HTTPResponseStatus? {
    guard head.uri == PartClient.path else { return .notFound }
    let given = Array((head.headers.first(name: "Authorization") ?? "").utf8)
    guard constantTimeEquals(authorization, given) else { return .unauthorized }
    return head.method == .POST ? nil : .methodNotAllowed
  }

  func answer(to body: ByteBuffer) -> PartAnswer {
    guard let questions = PartQuestions(body) else { return PartAnswer(status: .badRequest) }
    do throws(PartLookUp.Refusal) {
      let answers = try lookUp.answers(to: questions)
      held.record(answers.entries)
      return PartAnswer(status: .ok, body: answers.bytes)
    } catch {
      return PartAnswer(status: error == .otherPart ? .conflict : .serviceUnavailable)
    }
  }
}

/// The requests of one connection, one after the other. On its event loop alone.
///
/// A request has ten seconds from its first byte to its last. Before it is known whom it is from, nothing of it is
/// kept.
final class PartRequests: ChannelInboundHandler {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundOut = HTTPServerResponsePart

  private struct Reading {
    let isKeepAlive: Bool
    var refusal: HTTPResponseStatus?
    var body = ByteBuffer()
  }

  private let responder: PartResponder
  private var context: ChannelHandlerContext?
  private var reading: Reading?
  private var timer: Scheduled<Void>?
  /// Whether something of a request has come. The connection's handshake counts as the first one's.
  private var hasBegun = true
  private var isWriting = false
  /// Whether the connection ends behind what is under way.
  private var isLast = false

  private static let requestLimit = TimeAmount.seconds(10)
  /// Processes that ask keep their connections, and look every two seconds.
  private static let idleLimit = TimeAmount.seconds(90)

  init(_ responder: PartResponder) { self.responder = responder }

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    limit(Self.requestLimit)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    timer?.cancel()
  }

  private func limit(_ time: TimeAmount) {
    timer?.cancel()
    timer = context?.eventLoop.assumeIsolated().scheduleTask(in: time) { [self] in context?.close(promise: nil) }
  }

  /// The codec tells of a request when its head is whole.
  func bytesCame() {
    guard !hasBegun else { return }
    hasBegun = true
    limit(Self.requestLimit)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(let head):
      guard !isLast else { return }
      // Nobody who asks for a part asks ahead. Behind an upgrade the codec only gathers.
      guard !isWriting, head.method != .CONNECT, !head.headers.contains(name: "Upgrade") else {
        return context.close(promise: nil)
      }
      reading = Reading(isKeepAlive: head.isKeepAlive, refusal: responder.refusal(of: head))
    case .body(var part):
      guard reading?.refusal == nil else { return }
      let size = (reading?.body.readableBytes ?? 0) + part.readableBytes
      if size > PartQuestions.bytesMax {
        reading?.refusal = .payloadTooLarge
        reading?.body = ByteBuffer()
      } else {
        reading?.body.writeBuffer(&part)
      }
    case .end:
      guard let read = reading else { return }
      reading = nil
      answer(read, context)
    }
  }

  private func answer(_ read: Reading, _ context: ChannelHandlerContext) {
    let answer = read.refusal.map { PartAnswer(status: $0) } ?? responder.answer(to: read.body)
    if responder.drain.isDraining || !read.isKeepAlive { isLast = true }
    var head = HTTPResponseHead(version: .http1_1, status: answer.status)
    head.headers = ["Content-Length": "\(answer.body.readableBytes)", "Content-Type": "application/octet-stream"]
    if isLast { head.headers.add(name: "Connection", value: "close") }
    (isWriting, hasBegun) = (true, false)
    limit(isLast ? Self.requestLimit : Self.idleLimit)
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    context.write(wrapOutboundOut(.body(.byteBuffer(answer.body))), promise: nil)
    context.writeAndFlush(wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { [self] _ in
      isWriting = false
      if isLast { context.close(promise: nil) }
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard event is ChannelShouldQuiesceEvent else { return context.fireUserInboundEventTriggered(event) }
    isLast = true
    if reading == nil, !isWriting { return context.close(promise: nil) }
    limit(Self.requestLimit)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Tells of the bytes of a connection before the codec reads them.
final class PartBytes: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let requests: PartRequests

  init(_ requests: PartRequests) { self.requests = requests }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    requests.bytesCame()
    context.fireChannelRead(data)
  }
}
