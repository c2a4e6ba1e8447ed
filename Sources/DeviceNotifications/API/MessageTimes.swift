import RelayCore

/// The forms of times on this interface; all in UTC.
enum MessageTimes {
  /// `yyyyMMddHHmmssSSS`.
  static func compact(_ time: Timestamp) -> String {
    let utc = UTCTime(time)
    return pad(utc.year, 4) + pad(utc.month, 2) + pad(utc.day, 2) + pad(utc.hour, 2) + pad(utc.minute, 2)
      + pad(utc.second, 2) + pad(utc.milli, 3)
  }

  /// - Returns: nil unless `text` is 17 digits that form a moment.
  static func compact(_ text: String) -> Timestamp? {
    let digits = text.utf8.map { Int64($0) - 0x30 }
    guard digits.count == 17, digits.allSatisfy({ (0...9).contains($0) }) else { return nil }
    func number(_ range: Range<Int>) -> Int64 { digits[range].reduce(0) { $0 * 10 + $1 } }
    return UTCTime(
      year: number(0..<4), month: number(4..<6), day: number(6..<8), hour: number(8..<10), minute: number(10..<12),
      second: number(12..<14), milli: number(14..<17))?.timestamp
  }

  /// `yyyy-MM-dd HH:mm`.
  static func minute(_ time: Timestamp) -> String {
    let utc = UTCTime(time)
    return date(utc) + " " + pad(utc.hour, 2) + ":" + pad(utc.minute, 2)
  }

  /// `xsd:dateTime`: `yyyy-MM-ddTHH:mm:ssZ`.
  static func dateTime(_ time: Timestamp) -> String {
    let utc = UTCTime(time)
    return date(utc) + "T" + pad(utc.hour, 2) + ":" + pad(utc.minute, 2) + ":" + pad(utc.second, 2) + "Z"
  }

  private static func date(_ utc: UTCTime) -> String {
    pad(utc.year, 4) + "-" + pad(utc.month, 2) + "-" + pad(utc.day, 2)
  }

  private static func pad(_ value: Int64, _ count: Int) -> String {
    let digits = String(value)
    return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
  }
}

/// Keeps a value on its line: line ends become `\n` in two characters, tabs become spaces.
func washed(_ value: String) -> String {
  guard value.utf8.contains(where: { $0 == 9 || $0 == 10 || $0 == 13 }) else { return value }
  var bytes: [UInt8] = []
  bytes.reserveCapacity(value.utf8.count + 16)
  var wasReturn = false
  for byte in value.utf8 {
    switch byte {
    case 10 where wasReturn: break
    case 10, 13: bytes += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
    case 9: bytes.append(UInt8(ascii: " "))
    default: bytes.append(byte)
    }
    wasReturn = byte == 13
  }
  return String(decoding: bytes, as: UTF8.self)
}
