package import NIOCore

/// How long whoever sends a request may take, for it and for its answer, on every listener.
package struct RequestTimes: Sendable {
  /// For the head of a request, from its first byte; for the first one, from when the connection can be used. So long
  /// that a phone on a slow network, with a few packets lost, gets it across.
  package var head = TimeAmount.seconds(10)
  package var body = BodyPace()
  /// For a client to take some of what waits to be sent to it.
  package var taking = TimeAmount.seconds(60)
  /// For a client to take the last answer of a connection and to close, before the connection is closed on it.
  package var linger = TimeAmount.seconds(5)

  package init() {}
}

/// The least speed of a body: time is credit, which waiting for bytes uses up and bytes give back.
///
/// Only waiting counts: while the relay itself is not ready to read, nothing is used up. Blobs have a stricter pace of
/// their own.
package struct BodyPace: Sendable {
  /// At the start: the network may still have to be found again.
  package var grace = TimeAmount.seconds(10)
  /// Half of what GPRS has in its slowest coding, with what TLS and IP add taken off.
  package var bytesPerSecond: Int64 = 512
  /// However much came before, nobody is waited for longer than this.
  package var creditMax = TimeAmount.seconds(30)

  package init() {}
}

/// The credit of one body.
struct BodyCredit {
  private let pace: BodyPace
  private(set) var left: TimeAmount

  init(_ pace: BodyPace) {
    self.pace = pace
    left = pace.grace
  }

  mutating func received(_ bytes: Int) {
    // More than this fills it up in any case; the product below stays small.
    let counted = min(Int64(bytes), 1 << 30)
    left = min(pace.creditMax, left + .nanoseconds(counted * 1_000_000_000 / pace.bytesPerSecond))
  }

  mutating func waited(_ time: TimeAmount) { left = left - time }
}
