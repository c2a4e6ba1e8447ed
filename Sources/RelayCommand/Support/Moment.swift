import RelayCore

extension Timestamp {
  /// Reads a moment as people give it: a day (its beginning) or a time of a day, in UTC, or how long from `now`.
  /// - Returns: nil for anything else.
  init?(moment text: String, from now: Timestamp) {
    if let length = Self.length(text) {
      self = now.adding(length)
      return
    }
    let parts = text.split(separator: "T", maxSplits: 1, omittingEmptySubsequences: false)
    guard let date = Self.numbers(parts[0], by: "-"), date.count == 3 else { return nil }
    var clock: [Int64] = [0, 0, 0]
    if parts.count == 2 {
      let time = parts[1].hasSuffix("Z") ? parts[1].dropLast() : parts[1]
      guard let read = Self.numbers(time, by: ":"), (2...3).contains(read.count) else { return nil }
      clock = read.count == 3 ? read : read + [0]
    }
    let moment = UTCTime(
      year: date[0], month: date[1], day: date[2], hour: clock[0], minute: clock[1], second: clock[2])
    guard let moment else { return nil }
    self = moment.timestamp
  }

  /// `3d`, `12h`, `30m`.
  private static func length(_ text: String) -> Duration? {
    guard let unit = text.last, let count = Int64(text.dropLast()), (1...100_000).contains(count),
      let seconds = ["d": 86_400, "h": 3600, "m": 60][unit] as Int64?
    else { return nil }
    return .seconds(count * seconds)
  }

  private static func numbers(_ text: Substring, by separator: Character) -> [Int64]? {
    let words = text.split(separator: separator, omittingEmptySubsequences: false)
    let numbers = words.compactMap { $0.allSatisfy(\.isWholeNumber) ? Int64($0) : nil }
    return numbers.count == words.count ? numbers : nil
  }
}
