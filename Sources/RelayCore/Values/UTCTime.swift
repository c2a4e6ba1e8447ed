/// The fields of a moment in UTC, in the proleptic Gregorian calendar.
package struct UTCTime: Sendable, Equatable {
  package let year: Int64
  package let month: Int64
  package let day: Int64
  package let hour: Int64
  package let minute: Int64
  package let second: Int64
  package let milli: Int64

  package init(_ time: Timestamp) {
    let day = Self.floorDivide(time.millis, Timestamp.millisPerDay)
    let rest = time.millis - day * Timestamp.millisPerDay
    // Days from 0000-03-01, whose years end with the leap day.
    let shifted = day + 719_468
    let era = Self.floorDivide(shifted, 146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    self.day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000)
  }

  /// - Returns: nil unless the fields form a moment that there is.
  package init?(
    year: Int64, month: Int64, day: Int64, hour: Int64 = 0, minute: Int64 = 0, second: Int64 = 0, milli: Int64 = 0
  ) {
    guard (0...9999).contains(year), (1...12).contains(month), (1...31).contains(day), (0...23).contains(hour),
      (0...59).contains(minute), (0...59).contains(second), (0...999).contains(milli)
    else { return nil }
    (self.year, self.month, self.day) = (year, month, day)
    (self.hour, self.minute, self.second, self.milli) = (hour, minute, second, milli)
    // The thirty-first of a month of thirty days comes back as another day.
    guard UTCTime(timestamp) == self else { return nil }
  }

  package var timestamp: Timestamp {
    let shiftedYear = month <= 2 ? year - 1 : year
    let era = Self.floorDivide(shiftedYear, 400)
    let yearOfEra = shiftedYear - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    let days = era * 146_097 + dayOfEra - 719_468
    return Timestamp(
      millis: days * Timestamp.millisPerDay + hour * 3_600_000 + minute * 60_000 + second * 1000 + milli)
  }

  private static func floorDivide(_ value: Int64, _ divisor: Int64) -> Int64 {
    let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
    return remainder < 0 ? quotient - 1 : quotient
  }
}

extension Timestamp {
  /// `YYYY-MM-DD`, UTC.
  package var date: String {
    let time = UTCTime(self)
    return "\(padded(time.year, to: 4))-\(padded(time.month, to: 2))-\(padded(time.day, to: 2))"
  }

  /// `YYYY-MM-DDTHH:MM:SSZ`, UTC.
  package var iso8601: String {
    let time = UTCTime(self)
    return "\(date)T\(padded(time.hour, to: 2)):\(padded(time.minute, to: 2)):\(padded(time.second, to: 2))Z"
  }
}

private func padded(_ value: Int64, to count: Int) -> String {
  let digits = String(value)
  return String(repeating: "0", count: max(0, count - digits.count)) + digits
}
