import DequeModule
import NIOCore

/// Sends requests at a steady rate, however fast the answers come: an open loop. Belongs to the load's event loop.
///
/// A request that finds no free connection waits for one, and its latency counts from when it was due.
final class Pacer {
  private let perSecond: Int
  private let tally: LoadTally
  /// Connections without a request under way; called with nil, they close. They take turns, so that the relay ends none
  /// for being idle.
  private var free: Deque<(NIODeadline?) -> Void> = []
  private var waiting: Deque<NIODeadline> = []
  private var begun: NIODeadline?
  private var due: Int64 = 0

  init(perSecond: Int, tally: LoadTally) {
    self.perSecond = perSecond
    self.tally = tally
  }

  /// From now on requests fall due, until the tally stops.
  func begin(on loop: any EventLoop) {
    begun = .now()
    tick(NIOLoopBound(self, eventLoop: loop))
  }

  func becameFree(_ send: @escaping (NIODeadline?) -> Void) {
    if tally.phase == .stopping { return send(nil) }
    if let next = waiting.popFirst() { send(next) } else { free.append(send) }
  }

  private func tick(_ pacer: NIOLoopBound<Pacer>) {
    guard tally.phase != .stopping else {
      for send in free { send(nil) }
      free = []
      return
    }
    let now = NIODeadline.now()
    while let next = nextDue, next <= now {
      due += 1
      if let send = free.popFirst() { send(next) } else { wait(next) }
    }
    _ = pacer.eventLoop.scheduleTask(in: .microseconds(500)) { pacer.value.tick(pacer) }
  }

  private var nextDue: NIODeadline? {
    begun.map { $0 + .nanoseconds(due * 1_000_000_000 / Int64(perSecond)) }
  }

  private func wait(_ next: NIODeadline) {
    guard waiting.count < Self.waitingMax else { return tally.failed("the servers are slower than the pace") }
    waiting.append(next)
  }

  private static let waitingMax = 100_000
}
