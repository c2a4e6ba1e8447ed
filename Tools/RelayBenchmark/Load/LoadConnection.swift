import NIOCore

/// A keep-alive connection with at most one request under way.
///
/// In a closed loop the next is sent when the answer is there; with a pacer, when the pacer says so.
final class LoadConnection<Work: Workload>: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private var work: Work
  private let tally: LoadTally
  private let pacer: Pacer?
  private var reader = AnswerReader()
  /// When the request under way was sent, or should have been.
  private var begun: NIODeadline?

  init(_ work: Work, _ tally: LoadTally, pacer: Pacer?) {
    self.work = work
    self.tally = tally
    self.pacer = pacer
  }

  func channelActive(context: ChannelHandlerContext) { goOn(context) }

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
    if begun != nil { fail("a connection closed before the answer", context) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { fail("\(error)", context) }

  private func goOn(_ context: ChannelHandlerContext) {
    guard tally.phase != .stopping else { return context.close(promise: nil) }
    guard let pacer else { return send(at: .now(), context) }
    let context = NIOLoopBound(context, eventLoop: context.eventLoop)
    pacer.becameFree { [self] due in
      guard let due else { return context.value.close(promise: nil) }
      send(at: due, context.value)
    }
  }

  private func send(at due: NIODeadline, _ context: ChannelHandlerContext) {
    begun = due
    context.writeAndFlush(wrapOutboundOut(work.nextRequest()), promise: nil)
  }

  private func received(_ answer: Answer, _ context: ChannelHandlerContext) {
    guard let begun else { return fail("an answer to nothing", context) }
    self.begun = nil
    let time = NIODeadline.now() - begun
    if !answer.isSuccess {
      tally.failed("status \(answer.status)")
    } else if let fault = work.fault(in: answer) {
      tally.failed(fault)
    } else {
      tally.succeeded(after: time, rowsChanged: work.rowsChanged(by: answer))
    }
    goOn(context)
  }

  private func fail(_ reason: String, _ context: ChannelHandlerContext) {
    begun = nil
    tally.failed(reason)
    context.close(promise: nil)
  }
}
