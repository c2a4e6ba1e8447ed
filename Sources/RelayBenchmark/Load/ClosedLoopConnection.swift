import NIOCore

/// A keep-alive connection with exactly one request under way: the next is sent when the answer is there.
final class ClosedLoopConnection<Work: Workload>: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private var work: Work
  private let tally: LoadTally
  private var reader = AnswerReader()
  private var sent: NIODeadline?

  init(_ work: Work, _ tally: LoadTally) {
    self.work = work
    self.tally = tally
  }

  func channelActive(context: ChannelHandlerContext) { sendNext(context) }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    reader.append(&bytes)
    do throws(UnreadableAnswer) {
      while let answer = try reader.next() { received(answer, context) }
    } catch {
      fail("\(error)", context)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    if sent != nil { fail("a connection closed before the answer", context) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { fail("\(error)", context) }

  private func sendNext(_ context: ChannelHandlerContext) {
    guard tally.phase != .stopping else { return context.close(promise: nil) }
    sent = .now()
    context.writeAndFlush(wrapOutboundOut(work.nextRequest()), promise: nil)
  }

  private func received(_ answer: Answer, _ context: ChannelHandlerContext) {
    guard let sent else { return fail("an answer to nothing", context) }
    self.sent = nil
    if answer.isSuccess {
      tally.succeeded(after: .now() - sent, rowsChanged: work.rowsChanged(by: answer))
    } else {
      tally.failed("status \(answer.status)")
    }
    sendNext(context)
  }

  private func fail(_ reason: String, _ context: ChannelHandlerContext) {
    sent = nil
    tally.failed(reason)
    context.close(promise: nil)
  }
}
