import Glibc
import RelayCore

/// `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3).
enum RetryAfter {
  /// No provider has reason to ask for more; also what a broken clock could ask for is bounded.
  static let max = Duration.seconds(24 * 3600)
  /// A provider that says so to everything is not asked without a pause.
  private static let atOnce = Duration.seconds(1)

  /// - Returns: a second for 0 seconds, which say "at once"; nil for what can be read as neither, and for a date that
  ///   has passed.
  static func read(_ text: String?, now: Timestamp) -> Duration? {
    guard let text else { return nil }
    if !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) {
      // More digits than an integer holds are still seconds.
      let seconds = Int64(text).map { Duration.seconds(Swift.min($0, max.components.seconds)) } ?? max
      return Swift.max(seconds, atOnce)
    }
    guard let date = date(text) else { return nil }
    let left = Duration.milliseconds(Swift.min(date.millis - now.millis, max.components.seconds * 1000))
    return left > .zero ? left : nil
  }

  /// The three forms of a date that HTTP has had (RFC 9110, 5.6.7); all are UTC.
  private static func date(_ text: String) -> Timestamp? {
    // `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`
    var words = text.split { $0 == " " || $0 == "," || $0 == "-" }.dropFirst()
    if words.last == "GMT" {
      words.removeLast()
    } else if words.count == 4 {
      words = [words[2], words[1], words[4], words[3]]
    }
    guard words.count == 4, let day = number(words[words.startIndex], 1...31),
      let month = months.firstIndex(of: words[words.startIndex + 1]),
      let year = number(words[words.startIndex + 2], 0...9999)
    else { return nil }
    let clock = words[words.startIndex + 3].split(separator: ":", omittingEmptySubsequences: false)
    guard clock.count == 3, let hour = number(clock[0], 0...23), let minute = number(clock[1], 0...59),
      let second = number(clock[2], 0...60)
    else { return nil }
    var parts = tm()
    parts.tm_year = year < 100 ? (year < 70 ? year + 100 : year) : year - 1900
    parts.tm_mon = Int32(month)
    (parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec) = (day, hour, minute, second)
    return Timestamp(millis: Int64(timegm(&parts)) * 1000)
  }

  private static let months: [Substring] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  private static func number(_ text: Substring, _ range: ClosedRange<Int32>) -> Int32? {
    guard let value = Int32(text), range.contains(value) else { return nil }
    return value
  }
}
