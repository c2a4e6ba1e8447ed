import NIOCore

/// One WebSocket: frames in and out, limits, closing. The last handler of its connection, alone behind TLS.
///
/// States: open, then closing (our close frame is sent, the client's awaited), then ended.
final class SocketHandler: ChannelInboundHandler, Socket, Watched {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum Phase {
    case open
    /// - Parameters:
    ///   - isDeaf: the client's bytes cannot be read as frames any more.
    case closing(since: NIODeadline, isDeaf: Bool)
    /// The connection is being closed, or is.
    case ended
  }

  /// The state of TLS's buffers.
  private enum BufferUse {
    case used
    /// Until the last look, but not since.
    case quiet
    /// Their pages have been given back.
    case dropped
  }

  let eventLoop: any EventLoop
  private(set) var end: SocketEnd?
  var watchPlace = 0

  private let watch: SocketWatch
  private let loop: LoopWatch
  private let buffers: TLSBuffers?
  private var bufferUse = BufferUse.used
  private var phase = Phase.open
  private var reader: FrameReader
  private let room: BodyRoom
  /// The place of a message that has come in part; nil while that is little. And the bytes that are counted for it.
  private var place: BodyPlace?
  private var placeBytes = 0
  private var pace: SocketPace
  private var session: (any SocketSession)?
  private var context: ChannelHandlerContext?
  private var canWrite = true
  /// Whether this stands in `loop`'s list for the end of the turn.
  private var isListed = false
  private var unflushed = 0
  /// Whether the session is to be told that there is room again.
  private var owesRoom = false
  /// Whether more waits than may: then the connection is cut as soon as the session has had its say.
  private var isOverfull = false
  private var isFinished = false
  /// Bytes written, ever, and at the last look at which nothing waited.
  private var sent = 0
  private var settled = 0
  /// The payload of the latest ping that came while nothing could be written.
  private var ping: ByteBuffer?

  /// - Parameters:
  ///   - buffers: TLS's; nil without TLS.
  ///   - room: for messages that have come in part.
  init(
    _ limits: SocketLimits, _ times: SocketTimes, watch: SocketWatch, buffers: TLSBuffers?, room: BodyRoom = .process,
    eventLoop: any EventLoop
  ) {
    self.room = room
    self.watch = watch
    self.buffers = buffers
    self.eventLoop = eventLoop
    loop = watch.on(eventLoop)
    reader = FrameReader(messageBytesMax: limits.messageBytesMax)
    pace = SocketPace(limits, times, now: .now())
  }

  /// To be called once, when the handler stands in its pipeline.
  func begin(_ make: (any Socket) -> any SocketSession) {
    guard case .open = phase, context != nil else { return }
    let session = make(self)
    self.session = session
    session.opened()
  }

  // MARK: Socket

  var isWritable: Bool {
    if case .open = phase { canWrite && !isOverfull } else { false }
  }

  func send(_ message: SocketMessage) {
    guard case .open = phase, !isOverfull else { return }
    let bytes =
      switch message {
      case .text(let bytes), .binary(let bytes): bytes
      }
    if !canWrite, waitingBytes + bytes.readableBytes > Self.waitingBytesMax {
      isOverfull = true
      return comeBack()
    }
    if case .text = message { write(.text, bytes) } else { write(.binary, bytes) }
  }

  /// The bytes that may wait for a client that takes less than it asks for.
  private static let waitingBytesMax = 8 << 20

  func refund() { pace.refund() }

  func close(_ close: SocketClose) { self.close(close, .session) }

  // MARK: Closing

  private func close(_ close: SocketClose, _ end: SocketEnd, isDeaf: Bool = false) {
    guard case .open = phase, let context else { return }
    self.end = end
    phase = .closing(since: .now(), isDeaf: isDeaf)
    write(FrameWriter.close(close, allocator: context.channel.allocator))
  }

  /// Ends the connection, whatever waits to be sent.
  private func cut(_ end: SocketEnd) {
    self.end = self.end ?? end
    phase = .ended
    context?.close(promise: nil)
  }

  private func finish() {
    guard !isFinished else { return }
    isFinished = true
    end = end ?? .lost
    phase = .ended
    loop.remove(self)
    watch.closed()
    session?.closed()
    session = nil
    context = nil
    ping = nil
    reader.drop()
    leavePlace()
  }

  // MARK: Reading

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    bufferUse = .used
    buffers?.delivered(bytes)
    let now = NIODeadline.now()
    while canRead, let event = reader.next(&bytes) { take(event, now) }
    holdPart()
    pace.received(isInMidst: reader.isInMidst, now: now)
  }

  private var canRead: Bool {
    switch phase {
    case .open: true
    case .closing(_, let isDeaf): !isDeaf
    case .ended: false
    }
  }

  private func take(_ event: FrameReader.Event, _ now: NIODeadline) {
    switch event {
    case .closed(let code): return clientClosed(code)
    case .broken(let close):
      guard case .closing(let since, _) = phase else { return self.close(close, .malformed, isDeaf: true) }
      phase = .closing(since: since, isDeaf: true)
      return
    case .message:
      pace.messageEnded()
      leavePlace()
    // Large fragments are bounded by the message that they are part of.
    case .fragment(let count) where count >= Self.fragmentBytesMin: return
    case .fragment, .ping, .pong: break
    }
    guard pace.charge(now: now) else { return close(.tooMuch, .tooMuch) }
    switch event {
    // Also while it is closing: the client may have sent it before it knew.
    case .message(let message): session?.received(message)
    case .ping(let payload):
      // While the client takes nothing, the latest is enough (RFC 6455, 5.5.3).
      guard case .open = phase else { return }
      if canWrite { write(.pong, payload) } else { ping = payload }
    case .fragment, .pong, .closed, .broken: break
    }
  }

  /// Smaller ones count as messages.
  private static let fragmentBytesMin = 1024

  /// Counts the memory of a message whose rest has not come.
  private func holdPart() {
    let bytes = reader.heldBytes
    guard bytes > max(Self.placeBytesMin, placeBytes), !isFinished else { return }
    let place = self.place ?? takePlace()
    let growth = bytes - placeBytes
    placeBytes = bytes
    _ = place.grow(by: growth)
  }

  /// So much is what any connection takes.
  private static let placeBytesMin = 16 << 10

  private func takePlace() -> BodyPlace {
    let handler = NIOLoopBound(self, eventLoop: eventLoop)
    let place = room.begin { [eventLoop] in eventLoop.execute { handler.value.giveWay() } }
    self.place = place
    return place
  }

  private func leavePlace() {
    place?.end()
    (place, placeBytes) = (nil, 0)
  }

  /// Others need the memory. The message may have ended meanwhile: then nothing has to give way.
  private func giveWay() {
    guard place?.hasEnded == true else { return }
    leavePlace()
    reader.drop()
    guard case .closing(let since, _) = phase else { return close(.tryLater, .tooMuch, isDeaf: true) }
    phase = .closing(since: since, isDeaf: true)
  }

  private func clientClosed(_ code: UInt16?) {
    guard let context else { return }
    if case .open = phase {
      end = .client
      write(FrameWriter.closeAnswer(code, allocator: context.channel.allocator))
      flush()
    }
    phase = .ended
    context.close(promise: nil)
  }

  // MARK: Writing

  private func write(_ kind: FrameKind, _ payload: ByteBuffer) {
    guard let context else { return }
    write(FrameWriter.frame(kind, payload, allocator: context.channel.allocator))
  }

  private func write(_ frame: ByteBuffer) {
    guard let context else { return }
    sent += frame.readableBytes
    unflushed += frame.readableBytes
    context.write(wrapOutboundOut(frame), promise: nil)
    if unflushed >= Self.unflushedBytesMax { flush() } else { comeBack() }
  }

  /// TLS encrypts what is flushed at once into one buffer, and keeps that buffer.
  private static let unflushedBytesMax = 16 << 10

  private func flush() {
    unflushed = 0
    bufferUse = .used
    guard let buffers else {
      context?.flush()
      return
    }
    // While the channel still holds the former one, TLS encrypts into a new one.
    buffers.taking { context?.flush() }
  }

  private func comeBack() {
    guard !isListed else { return }
    isListed = true
    loop.finishLater(self)
  }

  /// The event loop's turn ends.
  func turnEnds() {
    isListed = false
    if isOverfull { return cut(.stalled) }
    if unflushed > 0 { flush() }
    guard owesRoom else { return }
    owesRoom = false
    if isWritable { session?.becameWritable() }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    canWrite = context.channel.isWritable
    guard canWrite, case .open = phase else { return }
    if let payload = ping {
      ping = nil
      write(.pong, payload)
    }
    // Not at once: this may come in the midst of what the session writes.
    owesRoom = true
    comeBack()
  }

  // MARK: The connection

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    canWrite = context.channel.isWritable
    watch.opened()
    loop.add(self)
  }

  func handlerRemoved(context: ChannelHandlerContext) { finish() }

  func channelInactive(context: ChannelHandlerContext) {
    finish()
    context.fireChannelInactive()
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    switch event {
    // Connections may be half-closed here, and nothing else would ever close this one.
    case ChannelEvent.inputClosed: cut(.lost)
    case is ChannelShouldQuiesceEvent: close(.restart, .shutdown)
    default: context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { cut(.lost) }

  func look(now: NIODeadline) {
    switch phase {
    case .open:
      let waiting = waitingBytes
      if waiting == 0 { settled = sent }
      switch pace.look(sent: sent, waiting: waiting, now: now) {
      case .fine: giveBackPages()
      case .close(let close, let end): self.close(close, end)
      case .cut(let end): cut(end)
      }
    case .closing(let since, _): if now - since >= pace.times.closing { cut(.lost) }
    case .ended: break
    }
  }

  /// Gives the pages of TLS's buffers back after a second or two without a byte.
  ///
  /// The buffers hold nothing then. TLS hands over all that it decrypts in the turn of the event loop in which it
  /// reads, `FrameReader` copies it, and no other handler is behind TLS. TLS hands all that it encrypts to the channel
  /// in the same turn. It may have words of its own, so the channel is asked whether it holds any.
  private func giveBackPages() {
    guard let buffers else { return }
    switch bufferUse {
    case .used: bufferUse = .quiet
    case .quiet:
      guard bufferedBytes == 0 else { return }
      buffers.dropPages()
      bufferUse = .dropped
    case .dropped: break
    }
  }

  private var waitingBytes: Int { sent == settled ? 0 : bufferedBytes }

  private var bufferedBytes: Int {
    guard let options = context?.channel.syncOptions else { return 0 }
    do {
      return try options.getOption(.bufferedWritableBytes)
    } catch {
      // A closed channel, whose end is on its way.
      return 0
    }
  }
}
