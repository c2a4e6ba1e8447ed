package import NIOCore

/// How long the transport waits for whom.
package struct SocketTimes: Sendable {
  /// For the whole head of a connection's first request.
  package var firstRequest: TimeAmount = RequestTimes().head
  /// For the door's answer.
  package var admission: TimeAmount = .seconds(10)
  /// For a client to take what waits for it, some of it at least.
  package var stalled: TimeAmount = .seconds(30)
  /// For a message, from its first byte to its last.
  package var message: TimeAmount = .seconds(60)
  /// For a client to answer a close, or to go after a refusal.
  package var closing: TimeAmount = .seconds(5)

  package init() {}
}

/// The limits of a client on one WebSocket, and since when it has not kept them. Times are noted as things happen,
/// which costs nothing, and compared about once a second.
struct SocketPace {
  /// The action that is due at a look.
  enum Verdict: Equatable {
    case fine
    case close(SocketClose, SocketEnd)
    /// Closing would have to wait behind what the client does not take.
    case cut(SocketEnd)
  }

  private let limits: SocketLimits
  let times: SocketTimes
  /// Messages that may come at once now.
  private var allowance: Double
  private var refilled: NIODeadline
  private var heard: NIODeadline
  /// Since when a message is in its midst.
  private var begun: NIODeadline?
  /// How much the client had taken at the last look, and since when it has taken nothing of what waits.
  private var taken = 0
  private var stalled: NIODeadline?

  init(_ limits: SocketLimits, _ times: SocketTimes, now: NIODeadline) {
    self.limits = limits
    self.times = times
    allowance = Double(limits.burst)
    refilled = now
    heard = now
  }

  /// Bytes came. - Parameter isInMidst: whether they ended inside a message.
  mutating func received(isInMidst: Bool, now: NIODeadline) {
    heard = now
    begun = isInMidst ? begun ?? now : nil
  }

  /// A whole message was taken: what follows is another one.
  mutating func messageEnded() { begun = nil }

  /// Charges one message.
  /// - Returns: whether it may be.
  mutating func charge(now: NIODeadline) -> Bool {
    let elapsed = Double((now - refilled).nanoseconds) / 1e9
    allowance = min(Double(limits.burst), allowance + elapsed * limits.perSecond)
    refilled = now
    guard allowance >= 1 else { return false }
    allowance -= 1
    return true
  }

  /// The message just charged costs nothing: it answers one of ours.
  mutating func refund() { allowance += 1 }

  /// - Parameters:
  ///   - sent: bytes that were written to the socket, ever.
  ///   - waiting: how many of them have not left.
  mutating func look(sent: Int, waiting: Int, now: NIODeadline) -> Verdict {
    // A handler before us may add bytes, which lowers this a little with each write. Bytes that the client takes
    // raise it.
    let takenNow = sent - waiting
    stalled = waiting == 0 || takenNow > taken ? nil : stalled ?? now
    taken = takenNow
    if let stalled, now - stalled >= times.stalled { return .cut(.stalled) }
    if now - heard >= TimeAmount(limits.idle) { return .close(.idle, .idle) }
    if let begun, now - begun >= times.message { return .close(.idle, .idle) }
    return .fine
  }
}
