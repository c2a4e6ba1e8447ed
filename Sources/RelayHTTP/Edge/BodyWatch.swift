import NIOCore

/// The pace of the bodies of a connection over HTTP/1.1, or of the one of a stream of HTTP/2. Part of the handler that
/// ends requests there: a handler of its own would cost each request a microsecond.
struct BodyWatch {
  private let pace: BodyPace
  /// The credit of the body that is coming; nil between bodies.
  private var credit: BodyCredit?
  /// Since when the network is waited for; nil while those behind the handler are.
  private var waitingSince: NIODeadline?
  fileprivate var isTimed = false

  init(_ pace: BodyPace) { self.pace = pace }

  mutating func headCame() { credit = BodyCredit(pace) }
  mutating func received(_ bytes: Int) { credit?.received(bytes) }
  mutating func ended() { credit = nil }

  /// The handlers behind this one ask for more.
  mutating func isAskedFor() {
    if credit != nil, waitingSince == nil { waitingSince = .now() }
  }

  /// All that has come was read.
  fileprivate mutating func readCompleted() {
    if let waitingSince { credit?.waited(.now() - waitingSince) }
    waitingSince = nil
  }

  /// The credit that is left just now; nil between bodies.
  fileprivate var left: TimeAmount? {
    guard var present = credit else { return nil }
    if let waitingSince { present.waited(.now() - waitingSince) }
    return present.left
  }
}

/// A handler that ends a request whose body comes too slowly.
protocol BodyWatching: AnyObject {
  /// The pace of the bodies that the handler reads.
  var bodies: BodyWatch { get set }
  /// nil before the handler is added and after it was removed.
  var context: ChannelHandlerContext? { get }

  /// The body of the request that is being read comes too slowly: called once a body.
  func bodyIsTooSlow(_ context: ChannelHandlerContext)
}

extension BodyWatching {
  /// The handler calls this with each `channelReadComplete`.
  func bodyReadCompleted() {
    bodies.readCompleted()
    look()
  }

  /// The timer is let run out rather than cancelled: NIO searches through all timers to cancel one.
  private func look() {
    guard let left = bodies.left, let context, !bodies.isTimed else { return }
    guard left > .zero else {
      bodies.ended()
      return bodyIsTooSlow(context)
    }
    bodies.isTimed = true
    _ = context.eventLoop.assumeIsolated().scheduleTask(in: left) { [weak self] in
      self?.bodies.isTimed = false
      self?.look()
    }
  }
}
