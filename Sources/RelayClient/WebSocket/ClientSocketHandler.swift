import NIOCore
import NIOWebSocket

/// Hears everything that comes over a WebSocket. Every call comes on the socket's event loop.
package protocol ClientSocketReceiver: AnyObject, Sendable {
  /// Called for each whole message and each pong, in order; it must not block.
  /// - Returns: how the socket goes on.
  func received(_ message: ClientSocket.Message) -> ClientSocketReaction
  /// Called once, last.
  func ended(_ end: ConnectionEnd)
}

/// The receiver's answer to a message.
package enum ClientSocketReaction: Sendable, Equatable {
  case goOn
  /// Read no more until `ClientSocket.resume()`; what was read already still comes.
  case pause
  case answer(ClientSocket.Message)
  /// The server may not send that: close with 1002.
  case fail(reason: String)
}

/// A WebSocket's end of the pipeline: frames in and out, pings, closing, signs of life. On its event loop alone.
final class ClientSocketHandler: ChannelDuplexHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundIn = WebSocketFrame
  typealias OutboundOut = WebSocketFrame

  /// Pings that may go unanswered, with nothing else coming, until the connection counts as lost.
  private static let silentPingsMax = 3
  /// How long a server has to answer our closing.
  private static let closingTimeout = TimeAmount.seconds(5)

  private let receiver: any ClientSocketReceiver
  private let keepAlive: TimeAmount?
  private let ended: EventLoopPromise<ConnectionEnd>
  private var reader: FrameReader
  private var context: ChannelHandlerContext?
  private var end: ConnectionEnd?
  private var isOver = false
  private var hasSentClose = false
  private var isPaused = false
  private var isReadDue = false
  private var isFlushDue = false
  private var silentPings = 0
  private var timers: [Scheduled<Void>] = []

  init(
    receiver: any ClientSocketReceiver, messageBytesMax: Int, keepAlive: TimeAmount?,
    ended: EventLoopPromise<ConnectionEnd>
  ) {
    self.receiver = receiver
    self.keepAlive = keepAlive
    self.ended = ended
    reader = FrameReader(messageBytesMax: messageBytesMax)
  }

  // MARK: Requests of the connection's owner

  /// Sends a message, flushed with all others of the event loop's turn. Fails once the connection ends.
  func send(_ message: ClientSocket.Message, promise: EventLoopPromise<Void>?) {
    guard let context, !isOver, !hasSentClose else {
      promise?.fail(end ?? .lost(reason: "it is closing"))
      return
    }
    let allocator = context.channel.allocator
    switch message {
    case .text(let text): write(.text, allocator.buffer(string: text), promise)
    case .binary(let bytes): write(.binary, allocator.buffer(bytes: bytes), promise)
    case .pong(let bytes): write(.pong, allocator.buffer(bytes: bytes), promise)
    case .ping(let bytes): write(.ping, allocator.buffer(bytes: bytes), promise)
    }
  }

  /// Closes by this client's word, unless it is closing.
  func close(code: UInt16) {
    end = end ?? .closedHere
    sendClose(code: code)
  }

  /// Reads on, after the receiver had no room.
  func resume() {
    isPaused = false
    readIfDue()
  }

  private func readIfDue() {
    guard isReadDue, !isHeld else { return }
    isReadDue = false
    context?.read()
  }

  /// Whether nothing is read for now: a relay that takes no answers must not be given more of them.
  private var isHeld: Bool { isPaused || context?.channel.isWritable == false }

  // MARK: The channel

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    scheduleTick()
  }

  func handlerRemoved(context: ChannelHandlerContext) { finish() }

  func channelInactive(context: ChannelHandlerContext) {
    finish()
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    silentPings = 0
    switch reader.received(Self.unwrapInboundIn(data)) {
    case .none: break
    case .deliver(let message):
      // Once this client has closed, nobody waits for what was still on its way.
      if !hasSentClose { react(receiver.received(message)) }
    case .pong(let data):
      if !hasSentClose { write(.pong, data, nil) }
    case .closed(let code, let reason): answerClose(code: code, reason: reason)
    case .fail(let code, let reason): fail(code, reason)
    }
  }

  private func react(_ reaction: ClientSocketReaction) {
    switch reaction {
    case .goOn: break
    case .pause: isPaused = true
    case .answer(let message): send(message, promise: nil)
    case .fail(let reason): fail(1002, reason)
    }
  }

  func read(context: ChannelHandlerContext) {
    if isHeld { isReadDue = true } else { context.read() }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    readIfDue()
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    if let error = error as? NIOWebSocketError {
      let isTooLarge = error == .invalidFrameLength
      fail(isTooLarge ? 1009 : 1002, isTooLarge ? "it sent too large a message" : "it sent a frame that cannot be read")
    } else {
      end = end ?? .lost(reason: ClientSocketOpener.reason(error))
    }
    context.close(promise: nil)
  }

  // MARK: Closing

  /// An answer is not waited for: whoever broke the protocol may not know how to close (RFC 6455, 7.1.7).
  private func fail(_ code: UInt16, _ reason: String) {
    end = end ?? .broken(reason: reason)
    sendClose(code: code)
    context?.close(promise: nil)
  }

  private func answerClose(code: Int, reason: String) {
    end = end ?? .closedByRelay(code: code, reason: reason)
    if !hasSentClose { sendClose(code: code == 1005 ? nil : UInt16(truncatingIfNeeded: code)) }
    context?.close(promise: nil)
  }

  /// Sends a close frame, once, and closes the connection when the server has not answered it in time.
  private func sendClose(code: UInt16?) {
    guard let context, !hasSentClose, !isOver else { return }
    var data = context.channel.allocator.buffer(capacity: 2)
    if let code { data.writeInteger(code) }
    write(.connectionClose, data, nil)
    context.flush()
    hasSentClose = true
    // The answer must be heard, even if what stands before it has no room.
    resume()
    let channel = context.channel
    timers.append(context.eventLoop.scheduleTask(in: Self.closingTimeout) { channel.close(promise: nil) })
  }

  private func finish() {
    guard !isOver else { return }
    isOver = true
    context = nil
    for timer in timers { timer.cancel() }
    timers = []
    let end = end ?? .lost(reason: "it was closed without a word")
    self.end = end
    receiver.ended(end)
    ended.succeed(end)
  }

  // MARK: Writing

  private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ promise: EventLoopPromise<Void>?) {
    guard let context else { return }
    // Servers demand a mask of every frame (RFC 6455, 5.3).
    let frame = WebSocketFrame(fin: true, opcode: opcode, maskKey: .random(), data: data)
    context.write(Self.wrapOutboundOut(frame), promise: promise)
    guard !isFlushDue else { return }
    isFlushDue = true
    context.eventLoop.assumeIsolated().execute {
      self.isFlushDue = false
      self.context?.flush()
    }
  }

  private func tick() {
    guard let context, !hasSentClose else { return }
    // While this client reads nothing, silence says nothing of the server.
    if !isPaused { silentPings += 1 }
    guard silentPings <= Self.silentPingsMax else {
      end = end ?? .lost(reason: "the relay gave no sign of life")
      context.close(promise: nil)
      return
    }
    write(.ping, ByteBuffer(), nil)
    scheduleTick()
  }

  private func scheduleTick() {
    guard let context, let keepAlive else { return }
    timers = [context.eventLoop.assumeIsolated().scheduleTask(in: keepAlive) { self.tick() }]
  }
}
