// Reads every JSON body of the wire: one pass over the bytes, no tree, no allocation but for what is kept.

/// Why a body was refused. Carries no part of it.
package enum JSONError: Error, Sendable, Equatable {
  /// Not JSON, bytes behind its end, or nested deeper than `WireLimits.jsonDepthMax`.
  case malformed
  /// JSON, but not of the expected shape: a missing property, another type, a number out of range.
  case wrongShape
  /// More elements than the reader's caller allows.
  case tooLarge
}

/// A property's name as it stands in the body.
package struct JSONKey: Sendable {
  fileprivate let range: Range<Int>
  fileprivate let hasEscapes: Bool
}

/// A pull reader for UTF-8 JSON.
///
/// Lenient where clients need it (reference 1.1): numeric strings read as integers, `"true"` and `"false"` as
/// booleans, `null` equals absence, unknown properties are skipped. Strict in everything else.
///
///     var reader = JSONReader(span)
///     try reader.beginObject()
///     while let key = try reader.nextKey() {
///       if reader.matches(key, "relay") { relay = try reader.string() } else { try reader.skip() }
///     }
///     try reader.finish()
package struct JSONReader: ~Escapable {
  let bytes: RawSpan
  var position = 0
  /// Whether a comma must stand before the next key or element.
  var needsSeparator = false

  @_lifetime(copy bytes)
  package init(_ bytes: RawSpan) { self.bytes = bytes }

  // MARK: Structure

  @_lifetime(self: copy self)
  package mutating func beginObject() throws(JSONError) {
    try open(UInt8(ascii: "{"))
  }

  /// - Returns: nil after the object's last property; the reader then stands behind the object.
  @_lifetime(self: copy self)
  package mutating func nextKey() throws(JSONError) -> JSONKey? {
    skipSpace()
    if try current() == UInt8(ascii: "}") {
      close()
      return nil
    }
    try separate()
    guard try current() == UInt8(ascii: "\"") else { throw .malformed }
    let key = try scanString()
    skipSpace()
    guard try current() == UInt8(ascii: ":") else { throw .malformed }
    position += 1
    needsSeparator = false
    return key
  }

  @_lifetime(self: copy self)
  package mutating func beginArray() throws(JSONError) {
    try open(UInt8(ascii: "["))
  }

  /// - Returns: false after the last element; the reader then stands behind the array.
  @_lifetime(self: copy self)
  package mutating func nextElement() throws(JSONError) -> Bool {
    skipSpace()
    if try current() == UInt8(ascii: "]") {
      close()
      return false
    }
    try separate()
    if try current() == UInt8(ascii: "]") { throw .malformed }
    return true
  }

  /// Nothing but white space may be left.
  @_lifetime(self: copy self)
  package mutating func finish() throws(JSONError) {
    skipSpace()
    guard position == bytes.byteCount else { throw .malformed }
  }

  /// Whether `key` spells `name`.
  package func matches(_ key: JSONKey, _ name: StaticString) -> Bool {
    if key.hasEscapes { return (try? text(of: key)) == name.description }
    guard key.range.count == name.utf8CodeUnitCount else { return false }
    for offset in 0..<key.range.count where byte(key.range.lowerBound + offset) != name.utf8Start[offset] {
      return false
    }
    return true
  }

  // MARK: Values

  /// - Returns: nil for `null`.
  /// - Throws: `.wrongShape` for another type, `.malformed` for invalid UTF-8 or a NUL character.
  @_lifetime(self: copy self)
  package mutating func string() throws(JSONError) -> String? {
    guard let key = try stringOrNull() else { return nil }
    return try text(of: key)
  }

  /// As `string`, of a field whose content is judged by its own rule: a NUL character is one of those that it may hold.
  @_lifetime(self: copy self)
  package mutating func stringWithAnyCharacter() throws(JSONError) -> String? {
    guard let key = try stringOrNull() else { return nil }
    return try anyText(of: key)
  }

  /// A string that must be the base64 of some bytes. - Returns: nil for `null` and for an empty string.
  @_lifetime(self: copy self)
  package mutating func base64() throws(JSONError) -> [UInt8]? {
    guard let key = try stringOrNull(), !key.range.isEmpty else { return nil }
    let decoded: [UInt8]?
    if key.hasEscapes {
      decoded = Base64.decode(try text(of: key))
    } else {
      decoded = bytes.extracting(key.range).withUnsafeBytes { Base64.decode($0) }
    }
    guard let decoded else { throw .wrongShape }
    return decoded.isEmpty ? nil : decoded
  }

  /// An integer, also as a string. - Returns: nil for `null`.
  @_lifetime(self: copy self)
  package mutating func integer() throws(JSONError) -> Int64? {
    skipSpace()
    if try current() == UInt8(ascii: "\"") {
      let key = try scanString()
      needsSeparator = true
      guard !key.hasEscapes, let value = parseInteger(key.range) else { throw .wrongShape }
      return value
    }
    if try readNull() { return nil }
    let range = try scanNumber()
    needsSeparator = true
    guard let value = parseInteger(range) else { throw .wrongShape }
    return value
  }

  /// A boolean, also as a string. - Returns: nil for `null`.
  @_lifetime(self: copy self)
  package mutating func boolean() throws(JSONError) -> Bool? {
    skipSpace()
    if try current() == UInt8(ascii: "\"") {
      let key = try scanString()
      needsSeparator = true
      if matches(key, "true") { return true }
      if matches(key, "false") { return false }
      throw .wrongShape
    }
    if try readNull() { return nil }
    if readLiteral("true") { return true }
    if readLiteral("false") { return false }
    throw try valueStartsHere() ? .wrongShape : .malformed
  }

  /// Reads a `null` if one stands here.
  @_lifetime(self: copy self)
  package mutating func readNull() throws(JSONError) -> Bool {
    skipSpace()
    _ = try current()
    return readLiteral("null")
  }

  /// Steps over one value of any type, checking that it is JSON.
  @_lifetime(self: copy self)
  package mutating func skip() throws(JSONError) { try skip(depth: WireLimits.jsonDepthMax) }

  @_lifetime(self: copy self)
  private mutating func skip(depth: Int) throws(JSONError) {
    guard depth > 0 else { throw .malformed }
    skipSpace()
    switch try current() {
    case UInt8(ascii: "{"):
      try beginObject()
      while try nextKey() != nil { try skip(depth: depth - 1) }
    case UInt8(ascii: "["):
      try beginArray()
      while try nextElement() { try skip(depth: depth - 1) }
    case UInt8(ascii: "\""):
      _ = try scanString()
      needsSeparator = true
    default:
      if readLiteral("null") || readLiteral("true") || readLiteral("false") { return }
      _ = try scanNumber()
      needsSeparator = true
    }
  }
}

extension JSONReader {
  /// Reads an object of which one property matters.
  /// - Parameter read: reads the property's value.
  /// - Returns: nil if there is no such property, or it is `null`; the last one if there are several.
  package static func property<Value>(
    _ name: StaticString, of json: RawSpan, _ read: (inout JSONReader) throws(JSONError) -> Value?
  ) throws(JSONError) -> Value? {
    var reader = JSONReader(json)
    var value: Value?
    try reader.beginObject()
    while let key = try reader.nextKey() {
      if reader.matches(key, name) { value = try read(&reader) } else { try reader.skip() }
    }
    try reader.finish()
    return value
  }
}

// MARK: - Scanning

extension JSONReader {
  private func byte(_ offset: Int) -> UInt8 { bytes.unsafeLoad(fromByteOffset: offset, as: UInt8.self) }

  private func current() throws(JSONError) -> UInt8 {
    guard position < bytes.byteCount else { throw .malformed }
    return byte(position)
  }

  @_lifetime(self: copy self)
  mutating func skipSpace() {
    while position < bytes.byteCount {
      switch byte(position) {
      case 0x20, 0x0A, 0x0D, 0x09: position += 1
      default: return
      }
    }
  }

  @_lifetime(self: copy self)
  private mutating func open(_ bracket: UInt8) throws(JSONError) {
    skipSpace()
    guard try current() == bracket else { throw try valueStartsHere() ? .wrongShape : .malformed }
    position += 1
    needsSeparator = false
  }

  @_lifetime(self: copy self)
  private mutating func close() {
    position += 1
    needsSeparator = true
  }

  @_lifetime(self: copy self)
  private mutating func separate() throws(JSONError) {
    guard needsSeparator else { return }
    guard try current() == UInt8(ascii: ",") else { throw .malformed }
    position += 1
    skipSpace()
  }

  /// Whether a JSON value begins here, of whatever type.
  private func valueStartsHere() throws(JSONError) -> Bool {
    switch try current() {
    case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""), UInt8(ascii: "-"), 0x30...0x39: true
    case UInt8(ascii: "t"): starts("true")
    case UInt8(ascii: "f"): starts("false")
    case UInt8(ascii: "n"): starts("null")
    default: false
    }
  }

  private func starts(_ literal: StaticString) -> Bool {
    guard bytes.byteCount - position >= literal.utf8CodeUnitCount else { return false }
    for offset in 0..<literal.utf8CodeUnitCount where byte(position + offset) != literal.utf8Start[offset] {
      return false
    }
    return true
  }

  @_lifetime(self: copy self)
  private mutating func readLiteral(_ literal: StaticString) -> Bool {
    guard starts(literal) else { return false }
    position += literal.utf8CodeUnitCount
    needsSeparator = true
    return true
  }

  @_lifetime(self: copy self)
  private mutating func stringOrNull() throws(JSONError) -> JSONKey? {
    if try readNull() { return nil }
    guard try current() == UInt8(ascii: "\"") else { throw try valueStartsHere() ? .wrongShape : .malformed }
    let key = try scanString()
    needsSeparator = true
    return key
  }

  /// The reader stands on the opening quote and is left behind the closing one.
  @_lifetime(self: copy self)
  private mutating func scanString() throws(JSONError) -> JSONKey {
    let start = position + 1
    var offset = start
    var hasEscapes = false
    while offset < bytes.byteCount {
      if offset + 8 <= bytes.byteCount,
        Self.isPlain(bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
      {
        offset += 8
        continue
      }
      let character = byte(offset)
      if character == UInt8(ascii: "\"") {
        position = offset + 1
        return JSONKey(range: start..<offset, hasEscapes: hasEscapes)
      }
      guard character >= 0x20 else { throw .malformed }
      if character == UInt8(ascii: "\\") {
        hasEscapes = true
        offset += 1
      }
      offset += 1
    }
    throw .malformed
  }

  /// Whether none of eight characters is a quote, a backslash or a control character: bodies are long, and hold none.
  private static func isPlain(_ word: UInt64) -> Bool {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let (quotes, backslashes) = (word ^ (ones * 0x22), word ^ (ones * 0x5c))
    // A subtraction sets the highest bit of a byte that is less than what is subtracted; where no byte is, it sets
    // none.
    let found = (word &- ones * 0x20) & ~word | (quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes
    return found & (ones * 0x80) == 0
  }

  /// A number by JSON's grammar; the reader is left behind it.
  @_lifetime(self: copy self)
  private mutating func scanNumber() throws(JSONError) -> Range<Int> {
    let start = position
    if try current() == UInt8(ascii: "-") { position += 1 }
    let leading = try current()
    let whole = skipDigits()
    guard whole > 0, whole == 1 || leading != 0x30 else { throw .malformed }
    if position < bytes.byteCount, byte(position) == UInt8(ascii: ".") {
      position += 1
      guard skipDigits() > 0 else { throw .malformed }
    }
    if position < bytes.byteCount, byte(position) | 0x20 == UInt8(ascii: "e") {
      position += 1
      if let sign = try? current(), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { position += 1 }
      guard skipDigits() > 0 else { throw .malformed }
    }
    return start..<position
  }

  /// - Returns: how many digits were stepped over.
  @_lifetime(self: copy self)
  private mutating func skipDigits() -> Int {
    let start = position
    while position < bytes.byteCount, case 0x30...0x39 = byte(position) { position += 1 }
    return position - start
  }

  /// - Returns: nil unless the range is an optional minus sign and digits within 64 bits.
  private func parseInteger(_ range: Range<Int>) -> Int64? {
    guard !range.isEmpty, range.count <= 20 else { return nil }
    let isNegative = byte(range.lowerBound) == UInt8(ascii: "-")
    let digits = isNegative ? range.dropFirst() : range
    guard !digits.isEmpty else { return nil }
    var value: Int64 = 0
    for offset in digits {
      let character = byte(offset)
      guard case 0x30...0x39 = character else { return nil }
      let (shifted, overflow) = value.multipliedReportingOverflow(by: 10)
      let (sum, carry) = shifted.subtractingReportingOverflow(Int64(character - 0x30))
      guard !overflow, !carry else { return nil }
      value = sum
    }
    guard !isNegative else { return value }
    return value == .min ? nil : -value
  }

  private func text(of key: JSONKey) throws(JSONError) -> String {
    let text = try anyText(of: key)
    // PostgreSQL's text cannot hold NUL, and no field of this wire has a use for it.
    guard !text.utf8.contains(0) else { throw .malformed }
    return text
  }

  private func anyText(of key: JSONKey) throws(JSONError) -> String {
    let raw = bytes.extracting(key.range)
    let decoded: String?
    if key.hasEscapes {
      let unescaped = try JSONEscapes.decode(raw)
      decoded = String(validating: unescaped, as: UTF8.self)
    } else {
      decoded = raw.withUnsafeBytes { String(validating: $0, as: UTF8.self) }
    }
    guard let decoded else { throw .malformed }
    return decoded
  }
}
