package import RelayCore

/// A day (UTC) of the loss ledger, as `relay ledger --day` takes it.
package struct LedgerDay: Sendable, Equatable {
  /// `2026-11-22`.
  package let text: String
  /// Its first hour.
  package let start: LedgerHour

  /// - Returns: nil unless it is a day of the calendar, from 1970 to 9999.
  package init?(_ text: String) {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.map(\.utf8.count) == [4, 2, 2], text.utf8.allSatisfy({ $0 == 45 || (48...57).contains($0) }),
      let year = Int(parts[0]), let month = Int(parts[1]), let day = Int(parts[2]), year >= 1970,
      (1...12).contains(month), (1...Self.days(of: month, in: year)).contains(day)
    else { return nil }
    self.text = text
    start = LedgerHour(number: Int32(Self.daysSince1970(year, month, day) * 24))
  }

  package var hours: ClosedRange<LedgerHour> { start...start.adding(hours: 23) }

  /// - Returns: when the hour `hour` (0 to 23) of this day is over.
  package func end(of hour: Int) -> Timestamp {
    Timestamp(millis: (Int64(start.number) + Int64(hour) + 1) * 3_600_000)
  }

  private static func isLeap(_ year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

  private static func days(of month: Int, in year: Int) -> Int {
    switch month {
    case 2: isLeap(year) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let before = year - 1
    let leapDays = before / 4 - before / 100 + before / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400)
    let months = (1..<month).reduce(0) { $0 + days(of: $1, in: year) }
    return (year - 1970) * 365 + leapDays + months + day - 1
  }
}
