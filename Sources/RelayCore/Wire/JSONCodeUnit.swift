/// The code unit of UTF-16 behind `\u` in a JSON string, as four hexadecimal digits (RFC 8259, 7).
package enum JSONCodeUnit {
  package static let digitCount = 4

  /// The unit with one more digit behind it.
  /// - Returns: nil when `digit` is none.
  package static func appending(_ digit: UInt8, to unit: UInt32) -> UInt32? {
    switch digit {
    case 0x30...0x39: unit << 4 | UInt32(digit - 0x30)
    case 0x41...0x46: unit << 4 | UInt32(digit - 0x41 + 10)
    case 0x61...0x66: unit << 4 | UInt32(digit - 0x61 + 10)
    default: nil
    }
  }

  /// Whether it is the first half of a pair.
  package static func isHighSurrogate(_ unit: UInt32) -> Bool { (0xD800..<0xDC00).contains(unit) }

  /// The character that two units are together.
  /// - Parameter high: a high surrogate.
  /// - Returns: nil when `low` is not the other half.
  package static func scalar(high: UInt32, low: UInt32) -> Unicode.Scalar? {
    guard isHighSurrogate(high), (0xDC00..<0xE000).contains(low) else { return nil }
    return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
  }
}
