import NIOCore
import NIOWebSocket

/// The owner of a WebSocket. Belongs to the load's event loop.
protocol LiveDevice: AnyObject {
  /// Called once, before the others. - Parameter write: sends a request over the WebSocket.
  func connected(_ write: @escaping (ByteBuffer) -> Void)
  func disconnected()
  /// It is acknowledged as soon as this returns.
  func delivered(_ heading: EnvelopeReader.Heading)
  /// The answer to the request under way.
  func answered(status: Int)
}

/// A device that others write to.
final class LiveRecipient: LiveDevice {
  private let senders: [String: LiveSender]
  private let tally: LiveTally
  /// By sender: each one's messages come in the order in which they were accepted.
  private var latest: [String: Int64] = [:]

  /// - Parameter senders: by number.
  init(_ senders: [String: LiveSender], _ tally: LiveTally) {
    self.senders = senders
    self.tally = tally
  }

  func connected(_ write: @escaping (ByteBuffer) -> Void) {}
  func disconnected() {}

  func delivered(_ heading: EnvelopeReader.Heading) {
    guard !heading.isReceipt, let sender = senders[heading.source] else {
      return tally.failed("a recipient was delivered what no sender sent")
    }
    let before = latest.updateValue(heading.timestamp, forKey: heading.source)
    if let before, before > heading.timestamp { tally.failed("messages of one sender came out of order") }
    sender.delivered(heading.timestamp)
  }

  func answered(status: Int) { tally.failed("an answer to nothing") }
}

/// A sender's own device, which is told that its messages have arrived. It may submit over the same WebSocket.
final class SendingDevice: LiveDevice {
  private let sender: LiveSender
  private let tally: LiveTally
  private let isSubmitting: Bool

  init(_ sender: LiveSender, _ tally: LiveTally, isSubmitting: Bool) {
    self.sender = sender
    self.tally = tally
    self.isSubmitting = isSubmitting
  }

  func connected(_ write: @escaping (ByteBuffer) -> Void) { if isSubmitting { sender.connected(write) } }
  func disconnected() { if isSubmitting { sender.disconnected() } }

  func delivered(_ heading: EnvelopeReader.Heading) {
    guard heading.isReceipt else { return tally.failed("a sender was delivered what is no receipt") }
    sender.receipted(heading.timestamp)
  }

  func answered(status: Int) { sender.answered(status: status) }
}

/// A device's WebSocket: reads deliveries and acknowledges each at once.
final class DeviceSocket: ChannelInboundHandler {
  typealias InboundIn = WebSocketFrame
  typealias OutboundOut = WebSocketFrame

  private let device: any LiveDevice
  private let tally: LiveTally
  private var reader: EnvelopeReader
  /// One for the whole connection: nothing between here and the relay could be misled by it.
  private let mask = WebSocketMaskingKey.random()

  /// - Parameter signalingKey: as it was uploaded.
  init(_ device: any LiveDevice, _ tally: LiveTally, signalingKey: String) throws {
    self.device = device
    self.tally = tally
    reader = try EnvelopeReader(signalingKey: signalingKey)
  }

  func handlerAdded(context: ChannelHandlerContext) {
    device.connected { [self] request in
      write(.binary, request, context)
      context.flush()
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    switch frame.opcode {
    case .binary where frame.fin: received(frame.data, context)
    case .ping: write(.pong, frame.data, context)
    case .pong: break
    case .connectionClose: tally.failed("a WebSocket was closed with \(Self.code(frame.data))")
    default: tally.failed("the relay sent a frame of another kind")
    }
  }

  /// The deliveries of one read are acknowledged with one write.
  func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

  func channelInactive(context: ChannelHandlerContext) {
    tally.failed("a WebSocket ended")
    tally.opened(reader.openedCount)
    device.disconnected()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    tally.failed("\(error)")
    context.close(promise: nil)
  }

  private func received(_ payload: ByteBuffer, _ context: ChannelHandlerContext) {
    do {
      switch try SocketPayload.read(payload) {
      case .delivery(let id, let envelope):
        device.delivered(try reader.read(envelope))
        write(.binary, try SocketPayload.acknowledgement(of: id), context)
      case .answer(let status): device.answered(status: Int(status))
      }
    } catch {
      tally.failed("\(error)")
    }
  }

  private func write(_ opcode: WebSocketOpcode, _ data: ByteBuffer, _ context: ChannelHandlerContext) {
    context.write(wrapOutboundOut(WebSocketFrame(fin: true, opcode: opcode, maskKey: mask, data: data)), promise: nil)
  }

  private static func code(_ data: ByteBuffer) -> String {
    data.getInteger(at: data.readerIndex, as: UInt16.self).map { "\($0)" } ?? "no code"
  }
}
