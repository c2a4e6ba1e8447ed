/// Milliseconds since 1970, the unit of every time on this wire (reference 2.7).
package struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
  package static let millisPerDay: Int64 = 86_400_000
  package let millis: Int64
  package init(millis: Int64) { self.millis = millis }

  /// The UTC day, counted from 1970-01-01.
  package var day: Int64 { millis.quotientAndRemainder(dividingBy: Self.millisPerDay).quotient }
  package var startOfDay: Timestamp { Timestamp(millis: day * Self.millisPerDay) }
  package var description: String { String(millis) }

  package func adding(_ duration: Duration) -> Timestamp {
    let (seconds, attoseconds) = duration.components
    return Timestamp(millis: millis + seconds * 1000 + attoseconds / 1_000_000_000_000_000)
  }
  package static func < (a: Self, b: Self) -> Bool { a.millis < b.millis }
}

/// Where a type gets the time from; tests hand in their own.
package struct WallClock: Sendable {
  package let now: @Sendable () -> Timestamp
  package init(now: @escaping @Sendable () -> Timestamp) { self.now = now }
}
