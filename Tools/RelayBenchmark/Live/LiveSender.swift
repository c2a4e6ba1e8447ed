import NIOCore

/// One sender: when it submits, and what has become of each of its messages. Belongs to the load's event loop.
///
/// In a closed loop it has one submission under way, and waits with the next while `unreceiptedMax` of its messages
/// have not come back as receipts: what is measured is then what the servers deliver, and not what they put aside.
/// With a pacer it submits when the pacer says so.
final class LiveSender {
  private struct Message {
    let submitted: NIODeadline
    var accepted: NIODeadline?
    var isDelivered = false
    var isReceipted = false
  }

  private static let unreceiptedMax = 8

  private let tally: LiveTally
  private let pacer: Pacer?
  private let firstTimestamp: Int64
  private var work: MessageWorkload
  /// By their timestamps, which rise by one from the first on.
  private var messages: ContiguousArray<Message> = []
  private var unreceipted = 0
  /// Whether an answer is awaited.
  private(set) var isUnderWay = false
  private var write: ((ByteBuffer) -> Void)?

  init(_ work: MessageWorkload, firstTimestamp: Int64, tally: LiveTally, pacer: Pacer?) {
    self.work = work
    self.firstTimestamp = firstTimestamp
    self.tally = tally
    self.pacer = pacer
  }

  /// - Parameter write: sends a request over its connection.
  func connected(_ write: @escaping (ByteBuffer) -> Void) { self.write = write }
  func disconnected() { write = nil }

  /// Submits from now on, until the tally stops.
  func begin() { goOn() }

  func answered(status: Int) {
    guard isUnderWay, let last = messages.indices.last else { return tally.failed("an answer to nothing") }
    isUnderWay = false
    if (200..<300).contains(status) {
      let (now, message) = (NIODeadline.now(), messages[last])
      messages[last].accepted = now
      tally.submissions.succeeded(after: now - message.submitted, rowsChanged: 0)
      if message.isDelivered { tally.delivered(afterAcceptance: .zero) }
    } else {
      unreceipted -= 1
      tally.failed("status \(status)")
    }
    goOn()
  }

  func failed(_ reason: String) { tally.failed(reason) }

  /// A recipient has the message with that timestamp.
  func delivered(_ timestamp: Int64) {
    guard let index = index(timestamp) else { return tally.failed("a message was delivered that was not sent") }
    guard !messages[index].isDelivered else { return tally.failed("a message was delivered twice") }
    messages[index].isDelivered = true
    let (now, message) = (NIODeadline.now(), messages[index])
    tally.delivered(after: now - message.submitted)
    if let accepted = message.accepted { tally.delivered(afterAcceptance: now - accepted) }
  }

  /// The sender is told that it has arrived.
  func receipted(_ timestamp: Int64) {
    guard let index = index(timestamp), messages[index].isDelivered else {
      return tally.failed("a receipt came for what was not delivered")
    }
    guard !messages[index].isReceipted else { return tally.failed("a receipt came twice") }
    messages[index].isReceipted = true
    unreceipted -= 1
    tally.receipted()
    if pacer == nil { goOn() }
  }

  private func index(_ timestamp: Int64) -> Int? {
    let offset = timestamp - firstTimestamp
    return messages.indices.contains(Int(offset)) ? Int(offset) : nil
  }

  private func goOn() {
    guard tally.phase != .stopping, !isUnderWay else { return }
    if let pacer {
      return pacer.becameFree { [self] due in
        if let due { submit(at: due) }
      }
    }
    if unreceipted < Self.unreceiptedMax { submit(at: .now()) }
  }

  private func submit(at due: NIODeadline) {
    messages.append(Message(submitted: due))
    unreceipted += 1
    isUnderWay = true
    write?(work.nextRequest())
  }
}

/// A sender's keep-alive connection over which it submits.
final class SubmissionConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let sender: LiveSender
  private var reader = AnswerReader()

  init(_ sender: LiveSender) { self.sender = sender }

  func channelActive(context: ChannelHandlerContext) {
    sender.connected { [self] request in context.writeAndFlush(wrapOutboundOut(request), promise: nil) }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    reader.append(&bytes)
    do throws(UnreadableAnswer) {
      while let answer = try reader.next() { sender.answered(status: answer.status) }
    } catch {
      sender.failed("\(error)")
      context.close(promise: nil)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    sender.failed("a connection closed")
    sender.disconnected()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    sender.failed("\(error)")
    context.close(promise: nil)
  }
}
