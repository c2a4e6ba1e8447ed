import DequeModule
import NIOCore

/// Requests that fall due whatever becomes of those before them: one that finds no free connection is lost, as those of
/// a client are that gives up. Belongs to one event loop, as all its connections do.
final class OpenLoop {
  /// The requests that fell due within a quarter of a second.
  struct Slice: Sendable {
    var offered = 0
    var sent = 0
    /// Answered with success within the patience of a client.
    var accepted = LatencyHistogram()
    var late = 0
    var refused = LatencyHistogram()
    /// Refusals with `Retry-After`.
    var refusedUntil = 0
    /// Anything else, by status.
    var failures: [Int: Int] = [:]
  }

  static let sliceSeconds = 0.25
  static let patience = TimeAmount.seconds(2)

  private var works: [MessageWorkload]
  private var turn = 0
  /// They take turns, so that none is ended for being idle.
  private var free: Deque<OpenConnection> = []
  private(set) var slices: [Slice] = []
  /// Answers of success, late ones too.
  private(set) var successes = 0
  private(set) var underWay = 0
  private var isOver = false
  private let begun = NIODeadline.now()
  private var pacePerSecond = 0
  private var paced = NIODeadline.now()
  private var due: Int64 = 0

  /// - Parameter works: one for each sender, which take turns.
  init(_ works: [MessageWorkload]) { self.works = works }

  /// From now on so many requests fall due each second.
  func pace(perSecond: Int) {
    pacePerSecond = perSecond
    paced = .now()
    due = 0
  }

  /// Lets requests fall due until `end`.
  func begin(on loop: any EventLoop) { tick(NIOLoopBound(self, eventLoop: loop)) }
  func end() { isOver = true }
  var present: Int { index(of: .now()) }

  private func tick(_ bound: NIOLoopBound<OpenLoop>) {
    guard !isOver else { return }
    let now = NIODeadline.now()
    while let next = nextDue, next <= now {
      due += 1
      let slice = slice(of: next)
      slices[slice].offered += 1
      guard let connection = nextFree() else { continue }
      slices[slice].sent += 1
      underWay += 1
      turn = (turn + 1) % works.count
      connection.send(works[turn].nextRequest(), due: next)
    }
    _ = bound.eventLoop.scheduleTask(in: .microseconds(500)) { bound.value.tick(bound) }
  }

  private func nextFree() -> OpenConnection? {
    while let connection = free.popFirst() { if connection.isOpen { return connection } }
    return nil
  }

  private var nextDue: NIODeadline? {
    pacePerSecond > 0 ? paced + .nanoseconds(due * 1_000_000_000 / Int64(pacePerSecond)) : nil
  }

  func becameFree(_ connection: OpenConnection) { free.append(connection) }

  func answered(_ answer: Answer, due: NIODeadline) {
    underWay -= 1
    let (time, slice) = (NIODeadline.now() - due, slice(of: due))
    let nanoseconds = UInt64(max(0, time.nanoseconds))
    switch answer.status {
    case 200..<300:
      successes += 1
      if time <= Self.patience {
        slices[slice].accepted.record(nanoseconds: nanoseconds)
      } else {
        slices[slice].late += 1
      }
    case 503:
      slices[slice].refused.record(nanoseconds: nanoseconds)
      if answer.saysWhen { slices[slice].refusedUntil += 1 }
    default: slices[slice].failures[answer.status, default: 0] += 1
    }
  }

  private func slice(of time: NIODeadline) -> Int {
    let index = index(of: time)
    while slices.count <= index { slices.append(Slice()) }
    return index
  }

  private func index(of time: NIODeadline) -> Int {
    max(0, Int(Double((time - begun).nanoseconds) / (Self.sliceSeconds * 1e9)))
  }
}

/// A keep-alive connection with at most one request under way.
final class OpenConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let loop: OpenLoop
  private var reader = AnswerReader()
  private var due: NIODeadline?
  private var context: ChannelHandlerContext?

  init(_ loop: OpenLoop) { self.loop = loop }

  var isOpen: Bool { context != nil }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelActive(context: ChannelHandlerContext) {
    self.context = context
    loop.becameFree(self)
  }

  func send(_ request: ByteBuffer, due: NIODeadline) {
    self.due = due
    context?.writeAndFlush(wrapOutboundOut(request), promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    reader.append(&bytes)
    do throws(UnreadableAnswer) {
      while let answer = try reader.next() {
        guard let due else { continue }
        self.due = nil
        loop.answered(answer, due: due)
        loop.becameFree(self)
      }
    } catch {
      context.close(promise: nil)
    }
  }

  /// A request under way stays unanswered; the connection is not used again.
  func channelInactive(context: ChannelHandlerContext) { self.context = nil }
  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
