import DequeModule
import NIOCore

/// The requests that one socket has under way, and those that wait until one of them is answered, and the client takes
/// what it is answered. No I/O.
struct SocketCalls {
  private var underWay = 0
  private var waiting: Deque<SocketCall> = []
  private var waitingBytes = 0

  /// - Returns: false for more than a client has reason to send at once; `next` gives what is taken.
  mutating func received(_ call: SocketCall) -> Bool {
    let bytes = call.byteCount
    // One is always taken: it may start at once.
    guard waiting.isEmpty || (waiting.count < Self.waitingMax && waitingBytes + bytes <= Self.waitingBytesMax) else {
      return false
    }
    waiting.append(call)
    waitingBytes += bytes
    return true
  }

  /// To be asked while the socket has room.
  /// - Returns: the next one to start; `answered` follows for each.
  mutating func next() -> SocketCall? {
    guard underWay < Self.underWayMax, let next = waiting.popFirst() else { return nil }
    underWay += 1
    waitingBytes -= next.byteCount
    return next
  }

  /// One of those under way is answered.
  mutating func answered() { underWay -= 1 }

  var isIdle: Bool { underWay == 0 && waiting.isEmpty }

  /// Their answers are held together, 4 MiB each at most.
  private static let underWayMax = 4
  private static let waitingMax = 76
  private static let waitingBytesMax = 2 << 20
}
