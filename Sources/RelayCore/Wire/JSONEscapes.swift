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
