/// The escapes of JSON strings (RFC 8259, 7).
enum JSONEscapes {
  /// Replaces every escape in `raw`, the inside of a JSON string.
  /// - Returns: bytes that are UTF-8 if `raw` was.
  /// - Throws: `.malformed` for an unknown escape or half a surrogate pair.
  static func decode(_ raw: RawSpan) throws(JSONError) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(raw.byteCount)
    var offset = 0
    while offset < raw.byteCount {
      let character = raw.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
      offset += 1
      guard character == UInt8(ascii: "\\") else {
        output.append(character)
        continue
      }
      guard offset < raw.byteCount else { throw .malformed }
      let escape = raw.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
      offset += 1
      switch escape {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): output.append(escape)
      case UInt8(ascii: "b"): output.append(0x08)
      case UInt8(ascii: "f"): output.append(0x0C)
      case UInt8(ascii: "n"): output.append(0x0A)
      case UInt8(ascii: "r"): output.append(0x0D)
      case UInt8(ascii: "t"): output.append(0x09)
      case UInt8(ascii: "u"):
        let scalar = try scalar(raw, &offset)
        output.append(contentsOf: String(scalar).utf8)
      default: throw .malformed
      }
    }
    return output
  }

  /// Reads `XXXX`, and for a high surrogate the `\uXXXX` that must follow.
  private static func scalar(_ raw: RawSpan, _ offset: inout Int) throws(JSONError) -> Unicode.Scalar {
    let first = try hex(raw, &offset)
    guard JSONCodeUnit.isHighSurrogate(first) else {
      guard let scalar = Unicode.Scalar(first) else { throw .malformed }
      return scalar
    }
    guard offset + 2 <= raw.byteCount, raw.unsafeLoad(fromByteOffset: offset, as: UInt8.self) == UInt8(ascii: "\\"),
      raw.unsafeLoad(fromByteOffset: offset + 1, as: UInt8.self) == UInt8(ascii: "u")
    else { throw .malformed }
    offset += 2
    let second = try hex(raw, &offset)
    guard let scalar = JSONCodeUnit.scalar(high: first, low: second) else { throw .malformed }
    return scalar
  }

  private static func hex(_ raw: RawSpan, _ offset: inout Int) throws(JSONError) -> UInt32 {
    guard offset + JSONCodeUnit.digitCount <= raw.byteCount else { throw .malformed }
    var unit: UInt32 = 0
    for index in offset..<offset + JSONCodeUnit.digitCount {
      let digit = raw.unsafeLoad(fromByteOffset: index, as: UInt8.self)
      guard let next = JSONCodeUnit.appending(digit, to: unit) else { throw .malformed }
      unit = next
    }
    offset += JSONCodeUnit.digitCount
    return unit
  }
}

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
