import NIOCore
import RelayWork
package import ServiceLifecycle
import Synchronization

/// An object that is looked at about once a second, on its event loop.
protocol Watched: AnyObject {
  /// Its place among all that are watched there; `LoopWatch` alone sets it.
  var watchPlace: Int { get set }
  /// Called about once a second, on the event loop.
  func look(now: NIODeadline)
}

/// Everything about a listener's connections that is not worth a timer, or a turn of the event loop, for each of them:
/// one for each event loop looks at all of them.
///
/// A timer of NIO's costs some hundred bytes, and cancelling one a search through all others.
package final class SocketWatch: Sendable {
  private let loops = Mutex<[ObjectIdentifier: NIOLoopBound<LoopWatch>]>([:])
  private let open = Atomic(0)

  package init() {}

  /// WebSockets that have not ended.
  package var openCount: Int { open.load(ordering: .acquiring) }

  /// Returns when no WebSocket is open, or `limit` has passed, or the task is cancelled.
  package func allClosed(within limit: Duration) async {
    await Pause.poll(every: .milliseconds(20), until: .now + limit) { openCount == 0 }
  }

  func opened() { open.wrappingAdd(1, ordering: .acquiringAndReleasing) }
  func closed() { open.wrappingSubtract(1, ordering: .acquiringAndReleasing) }

  /// To be called on `eventLoop`.
  func on(_ eventLoop: any EventLoop) -> LoopWatch {
    loops.withLock { loops in
      let key = ObjectIdentifier(eventLoop)
      if let known = loops[key] { return known }
      let new = NIOLoopBound(LoopWatch(eventLoop), eventLoop: eventLoop)
      loops[key] = new
      return new
    }.value
  }
}

/// The part of a `SocketWatch` that one event loop owns.
final class LoopWatch {
  private let eventLoop: any EventLoop
  private var watched: ContiguousArray<any Watched> = []
  private var isTimed = false
  private var unfinished: ContiguousArray<SocketHandler> = []

  init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

  func add(_ one: any Watched) {
    one.watchPlace = watched.count
    watched.append(one)
    if !isTimed {
      isTimed = true
      lookLater()
    }
  }

  /// Nothing when it is not watched.
  func remove(_ one: any Watched) {
    let place = one.watchPlace
    guard watched.indices.contains(place), watched[place] === one else { return }
    let last = watched.removeLast()
    if last !== one {
      watched[place] = last
      last.watchPlace = place
    }
  }

  /// Has `socket` told when the event loop's turn ends, with all others of the turn.
  func finishLater(_ socket: SocketHandler) {
    unfinished.append(socket)
    guard unfinished.count == 1 else { return }
    let bound = NIOLoopBound(self, eventLoop: eventLoop)
    eventLoop.execute { bound.value.finish() }
  }

  private func finish() {
    let sockets = unfinished
    unfinished = []
    for socket in sockets { socket.turnEnds() }
  }

  private func lookLater() {
    let bound = NIOLoopBound(self, eventLoop: eventLoop)
    eventLoop.scheduleTask(in: Self.interval) { bound.value.look() }
  }

  private func look() {
    let now = NIODeadline.now()
    // From the end: whoever is removed meanwhile is replaced by one that was looked at already.
    var place = watched.count
    while place > 0 {
      place -= 1
      if place < watched.count { watched[place].look(now: now) }
    }
    isTimed = !watched.isEmpty
    if isTimed { lookLater() }
  }

  private static let interval = TimeAmount.seconds(1)
}

/// A listener whose WebSockets need no task of their own: it has stopped when they have ended too.
package struct SocketService: Service {
  private let listener: any Service
  private let sockets: SocketWatch

  package init(_ listener: any Service, sockets: SocketWatch) {
    self.listener = listener
    self.sockets = sockets
  }

  package func run() async throws {
    try await listener.run()
    // The listener told them to close; twice what each client has for its answer.
    await sockets.allClosed(within: .seconds(10))
  }
}
