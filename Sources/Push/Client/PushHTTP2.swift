import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOHTTP2

/// A connection of HTTP/2, frame by frame: a channel for each stream would cost as much as the push.
///
/// NIO's handler keeps the rules of the protocol: windows of what is sent, the table of headers, the states of streams.
/// Requests are few kilobytes and answers fewer, so this needs no more.
final class PushHTTP2: ChannelInboundHandler, PushConnection {
  typealias InboundIn = HTTP2Frame
  typealias OutboundOut = HTTP2Frame

  /// Streams that were given up, for which answers may come yet.
  static let resetStreamsMax = 1024
  /// The bytes of answers that the server may have under way to us; as NIO announces them.
  private static let window = 65_535
  /// A connection of so many requests ends: the numbers of streams do (RFC 9113, 5.1.1).
  private static let streamMax = Int(Int32.max) - 2
  /// Headers that are different each time: the table of headers is for others, the token first.
  private static let changing: Set = ["apns-id", "apns-expiration", "apns-collapse-id"]

  private let pool: PushPool
  /// Until the server has told its settings.
  private var opening: PushOpening?
  private var context: ChannelHandlerContext?
  private var streams: [HTTP2StreamID: PushCall] = [:]
  private var nextStream = 1
  /// As many as the server takes at a time. Without its word NIO lets no more begin.
  private var streamsMax = 100
  private var isEnding = false
  private var isWritten = false
  private var idleSince = NIODeadline.now()

  init(_ pool: PushPool, _ opening: PushOpening) {
    self.pool = pool
    self.opening = opening
  }

  var hasRoom: Bool { !isEnding && streams.count < streamsMax && context?.channel.isActive == true }

  /// Goes out with the next flush.
  func write(_ call: PushCall) {
    guard let context, hasRoom else { return call.end(.notTaken) }
    let stream = HTTP2StreamID(nextStream)
    nextStream += 2
    streams[stream] = call
    let isWhole = call.body.readableBytes == 0
    write(.headers(.init(headers: Self.fields(of: call), endStream: isWhole)), stream, context)
    // NIO may have refused it.
    if !isWhole, streams[stream] != nil {
      write(.data(.init(data: .byteBuffer(call.body), endStream: true)), stream, context)
    }
    if nextStream > Self.streamMax {
      isEnding = true
      pool.isEnding(self)
    }
  }

  func flush() {
    guard isWritten, let context else { return }
    isWritten = false
    context.flush()
  }

  func look(_ now: NIODeadline) -> NIODeadline? {
    for stream in streams.filter({ $0.value.deadline <= now }).keys.sorted() { reset(stream, .timedOut) }
    pool.hasRoom(self)
    flush()
    if let next = streams.values.map(\.deadline).min() { return next }
    let due = idleSince + TimeAmount(pool.pools.settings.idleTimeout)
    guard isEnding || due <= now else { return due }
    close()
    return nil
  }

  func giveUp(_ call: PushCall) {
    guard let stream = streams.first(where: { $0.value === call })?.key else { return }
    reset(stream, .cancelled)
    pool.hasRoom(self)
    flush()
  }

  func close() {
    isEnding = true
    context?.close(promise: nil)
  }

  private static func fields(of call: PushCall) -> HPACKHeaders {
    var fields = HPACKHeaders()
    fields.reserveCapacity(call.headers.count + 5)
    fields.add(name: ":method", value: "POST")
    fields.add(name: ":scheme", value: call.url.server.isSecure ? "https" : "http")
    fields.add(name: ":authority", value: call.url.server.authority)
    fields.add(name: ":path", value: call.url.path, indexing: .nonIndexable)
    for (name, value) in call.headers {
      fields.add(name: name, value: value, indexing: changing.contains(name) ? .nonIndexable : .indexable)
    }
    fields.add(name: "content-length", value: "\(call.body.readableBytes)", indexing: .nonIndexable)
    return fields
  }

  private func write(
    _ payload: HTTP2Frame.FramePayload, _ stream: HTTP2StreamID, _ context: ChannelHandlerContext
  ) {
    isWritten = true
    context.write(wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: nil)
  }

  // MARK: Streams

  /// The answer has come whole.
  private func finish(_ stream: HTTP2StreamID) { remove(stream)?.finish() }

  /// No more of the answer is wanted.
  private func reset(_ stream: HTTP2StreamID, _ failure: PushFailure) {
    guard let context, let call = remove(stream) else { return }
    write(.rstStream(.cancel), stream, context)
    call.end(failure)
  }

  private func remove(_ stream: HTTP2StreamID) -> PushCall? {
    guard let call = streams.removeValue(forKey: stream) else { return nil }
    if streams.isEmpty {
      idleSince = .now()
      pool.pools.watch(until: idleSince + TimeAmount(pool.pools.settings.idleTimeout))
    }
    return call
  }

  private func endAll(_ failure: PushFailure) {
    let calls = streams.sorted { $0.key < $1.key }
    streams = [:]
    for (_, call) in calls { call.end(failure) }
  }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }
  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    let stream = frame.streamID
    switch frame.payload {
    case .headers(let content):
      guard let call = streams[stream] else { return }
      // Behind the head come trailers, before it whatever is under way (1xx): both say nothing.
      if !call.isAnswered, let head = Head(content.headers), !(100..<200).contains(head.status) {
        call.began(head.status, head.headers)
      }
      if content.endStream { finish(stream) }
    case .data(let content):
      guard let call = streams[stream], case .byteBuffer(var part) = content.data else { return }
      if !call.received(&part) {
        reset(stream, .lost)
      } else if content.endStream {
        finish(stream)
      }
    case .rstStream(let code): remove(stream)?.end(code == .refusedStream ? .notTaken : .lost)
    case .goAway(let last, let code, _): announced(code, last: last)
    case .settings(.settings(let settings)): told(settings)
    default: break
    }
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    if isEnding, streams.isEmpty {
      close()
    } else {
      pool.hasRoom(self)
      flush()
    }
    context.fireChannelReadComplete()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    // Streams are too short to need more than they begin with.
    if let event = event as? NIOHTTP2WindowUpdatedEvent, event.streamID == .rootStream,
      let left = event.inboundWindowSize, left < Self.window / 2
    {
      write(.windowUpdate(windowSizeIncrement: Self.window - left), .rootStream, context)
    }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? NIOHTTP2Errors.StreamError {
      // A request that NIO did not let begin: it says nothing of the others.
      remove(error.streamID)?.end(error.baseError is NIOHTTP2Errors.CreatedStreamAfterGoaway ? .notTaken : .lost)
      return
    }
    opening?.fail(error)
    opening = nil
    close()
    endAll(.lost)
  }

  func channelInactive(context: ChannelHandlerContext) {
    opening?.fail(PushFailure.lost)
    opening = nil
    isEnding = true
    endAll(.lost)
    pool.closed(self)
    context.fireChannelInactive()
  }

  private func told(_ settings: HTTP2Settings) {
    for setting in settings where setting.parameter == .maxConcurrentStreams { streamsMax = setting.value }
    opening?.succeed(self)
    opening = nil
  }

  /// The server is about to close the connection: it has not begun with streams above `last`.
  private func announced(_ code: HTTP2ErrorCode, last: HTTP2StreamID) {
    isEnding = true
    pool.pools.end.announced(code)
    for stream in streams.keys.filter({ $0 > last }).sorted() { remove(stream)?.end(.notTaken) }
    opening?.fail(PushFailure.lost)
    opening = nil
    pool.isEnding(self)
  }

  /// The head of an answer.
  private struct Head {
    let status: Int
    var headers = HTTPHeaders()

    /// - Returns: nil for trailers.
    init?(_ fields: HPACKHeaders) {
      var status: Int?
      for (name, value, _) in fields {
        if name == ":status" { status = Int(value) } else { headers.add(name: name, value: value) }
      }
      guard let status else { return nil }
      self.status = status
    }
  }
}
