/// Milliseconds since 1970, the unit of every time on this wire (reference 2.7).
package struct Timestamp: Sendable, Hashable, Comparable, CustomStringConvertible {
  package static let millisPerDay: Int64 = 86_400_000
  package let millis: Int64
  package init(millis: Int64) { self.millis = millis }

  /// The UTC day, counted from 1970-01-01.
  package var day: Int64 { millis.quotientAndRemainder(dividingBy: Self.millisPerDay).quotient }
  package var startOfDay: Timestamp { Timestamp(millis: day * Self.millisPerDay) }
  package var description: String { String(millis) }

  /// The last or the first moment that there is, where the sum lies beyond it: times come from peers and clients too.
  package func adding(_ duration: Duration) -> Timestamp {
    let (seconds, attoseconds) = duration.components
    let (whole, isTooLong) = seconds.multipliedReportingOverflow(by: 1000)
    let (fine, isFinerTooLong) = whole.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
    let (sum, isBeyond) = millis.addingReportingOverflow(fine)
    guard isTooLong || isFinerTooLong || isBeyond else { return Timestamp(millis: sum) }
    return Timestamp(millis: duration < .zero ? .min : .max)
  }
  package static func < (a: Self, b: Self) -> Bool { a.millis < b.millis }
}

/// The source of the time for a type; tests hand in their own.
package struct WallClock: Sendable {
  package let now: @Sendable () -> Timestamp
  package init(now: @escaping @Sendable () -> Timestamp) { self.now = now }
}
