// Text to `JSONValue`. Beside RelayCore's `JSONReader`, which reads what has a known shape and refuses what PostgreSQL
// cannot hold: whatever an event or an app's default payload holds must pass here, or a homeserver would repeat its
// request for a day.

import OrderedCollections
import RelayCore

/// The text is not JSON, or is nested too deeply. Carries no part of it.
package struct JSONFault: Error, Sendable, Equatable {}

extension JSONValue {
  /// Far above what events have, far below what would exhaust a thread's stack.
  static let depthMax = 128

  /// Reads one value and nothing behind it.
  ///
  /// Half a surrogate pair becomes U+FFFD: nothing is lost that could have been shown.
  package init(parsing bytes: some Collection<UInt8>) throws(JSONFault) {
    self = try JSONParser.whole(bytes) { (parser) throws(JSONFault) in try parser.value(depth: Self.depthMax) }
  }
}

/// Reads within the life of `bytes`; never escapes it.
struct JSONParser {
  private let bytes: UnsafeBufferPointer<UInt8>
  private var position = 0

  private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  /// Reads the one value that `bytes` are, by `read`. - Throws: also for bytes behind it.
  static func whole<Value>(
    _ bytes: some Collection<UInt8>, _ read: (inout JSONParser) throws(JSONFault) -> Value
  ) throws(JSONFault) -> Value {
    func result(_ bytes: UnsafeBufferPointer<UInt8>) -> Result<Value, JSONFault> {
      do throws(JSONFault) {
        var parser = JSONParser(bytes)
        let value = try read(&parser)
        parser.skipSpace()
        guard parser.position == bytes.count else { throw JSONFault() }
        return .success(value)
      } catch {
        return .failure(error)
      }
    }
    // The closures' errors lose their type: results carry it past them.
    let inPlace = bytes.withContiguousStorageIfAvailable { result($0) }
    let parsed = inPlace ?? Array(bytes).withUnsafeBufferPointer { result($0) }
    return try parsed.get()
  }

  private mutating func skipSpace() {
    while position < bytes.count {
      switch bytes[position] {
      case 0x20, 0x0A, 0x0D, 0x09: position += 1
      default: return
      }
    }
  }

  mutating func value(depth: Int) throws(JSONFault) -> JSONValue {
    guard depth > 0 else { throw JSONFault() }
    skipSpace()
    switch try current() {
    case UInt8(ascii: "{"): return .object(try object(depth: depth))
    case UInt8(ascii: "["): return .list(try list(depth: depth))
    case UInt8(ascii: "\""): return .text(try string())
    case UInt8(ascii: "t"): return try literal("true", .boolean(true))
    case UInt8(ascii: "f"): return try literal("false", .boolean(false))
    case UInt8(ascii: "n"): return try literal("null", .null)
    default: return .number(try number())
    }
  }

  // MARK: Known names

  /// Reads an object of which some members are wanted; no others are kept, and no keys are made.
  ///
  /// If keys are equal, each is read: the later one is to win.
  /// - Parameters:
  ///   - depth: of the object itself, as `value` has it.
  ///   - read: reads the value of the member whose place among `names` it is given.
  /// - Returns: false, with the value read, when it is no object.
  mutating func object(
    _ names: [StaticString], depth: Int, _ read: (inout JSONParser, Int) throws(JSONFault) -> Void
  ) throws(JSONFault) -> Bool {
    guard try isNext("{", depth: depth) else {
      _ = try value(depth: depth)
      return false
    }
    position += 1
    skipSpace()
    guard try !take("}") else { return true }
    repeat {
      skipSpace()
      let name = try key(among: names)
      skipSpace()
      guard try take(":") else { throw JSONFault() }
      if let name { try read(&self, name) } else { _ = try value(depth: depth - 1) }
      skipSpace()
    } while try take(",")
    guard try take("}") else { throw JSONFault() }
    return true
  }

  /// Reads a list whose elements `read` reads.
  /// - Returns: false, with the value read, when it is no list.
  mutating func list(depth: Int, _ read: (inout JSONParser) throws(JSONFault) -> Void) throws(JSONFault) -> Bool {
    guard try isNext("[", depth: depth) else {
      _ = try value(depth: depth)
      return false
    }
    position += 1
    skipSpace()
    guard try !take("]") else { return true }
    repeat {
      try read(&self)
      skipSpace()
    } while try take(",")
    guard try take("]") else { throw JSONFault() }
    return true
  }

  private mutating func isNext(_ character: Unicode.Scalar, depth: Int) throws(JSONFault) -> Bool {
    guard depth > 0 else { throw JSONFault() }
    skipSpace()
    return try current() == UInt8(ascii: character)
  }

  /// - Returns: the key's place among `names`; nil for another one.
  private mutating func key(among names: [StaticString]) throws(JSONFault) -> Int? {
    guard try current() == UInt8(ascii: "\"") else { throw JSONFault() }
    let start = position + 1
    var end = start
    while end < bytes.count, bytes[end] != UInt8(ascii: "\""), bytes[end] != UInt8(ascii: "\\") { end += 1 }
    if end < bytes.count, bytes[end] == UInt8(ascii: "\"") {
      let key = bytes[start..<end]
      if let name = names.firstIndex(where: { $0.withUTF8Buffer { $0.elementsEqual(key) } }) {
        position = end + 1
        return name
      }
    }
    let key = try string()
    return names.firstIndex { $0.withUTF8Buffer { $0.elementsEqual(key.utf8) } }
  }

  // MARK: Structure

  private mutating func object(depth: Int) throws(JSONFault) -> JSONObject {
    var object = JSONObject()
    position += 1
    skipSpace()
    guard try !take("}") else { return object }
    repeat {
      skipSpace()
      guard try current() == UInt8(ascii: "\"") else { throw JSONFault() }
      let key = try string()
      skipSpace()
      guard try take(":") else { throw JSONFault() }
      object[JSONName(key)] = try value(depth: depth - 1)
      skipSpace()
    } while try take(",")
    guard try take("}") else { throw JSONFault() }
    return object
  }

  private mutating func list(depth: Int) throws(JSONFault) -> [JSONValue] {
    var list: [JSONValue] = []
    position += 1
    skipSpace()
    guard try !take("]") else { return list }
    repeat {
      list.append(try value(depth: depth - 1))
      skipSpace()
    } while try take(",")
    guard try take("]") else { throw JSONFault() }
    return list
  }

  private mutating func literal(_ word: StaticString, _ value: JSONValue) throws(JSONFault) -> JSONValue {
    guard bytes.count - position >= word.utf8CodeUnitCount else { throw JSONFault() }
    for offset in 0..<word.utf8CodeUnitCount where bytes[position + offset] != word.utf8Start[offset] {
      throw JSONFault()
    }
    position += word.utf8CodeUnitCount
    return value
  }

  private func current() throws(JSONFault) -> UInt8 {
    guard position < bytes.count else { throw JSONFault() }
    return bytes[position]
  }

  private mutating func take(_ character: Unicode.Scalar) throws(JSONFault) -> Bool {
    guard try current() == UInt8(ascii: character) else { return false }
    position += 1
    return true
  }

  // MARK: Numbers

  /// JSON's grammar and no more: no `NaN`, no `Infinity`, no leading zero.
  private mutating func number() throws(JSONFault) -> String {
    let start = position
    if try current() == UInt8(ascii: "-") { position += 1 }
    let leading = try current()
    let whole = skipDigits()
    guard whole > 0, whole == 1 || leading != 0x30 else { throw JSONFault() }
    if position < bytes.count, bytes[position] == UInt8(ascii: ".") {
      position += 1
      guard skipDigits() > 0 else { throw JSONFault() }
    }
    if position < bytes.count, bytes[position] | 0x20 == UInt8(ascii: "e") {
      position += 1
      if position < bytes.count, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
        position += 1
      }
      guard skipDigits() > 0 else { throw JSONFault() }
    }
    return String(decoding: bytes[start..<position], as: UTF8.self)
  }

  private mutating func skipDigits() -> Int {
    let start = position
    while position < bytes.count, case 0x30...0x39 = bytes[position] { position += 1 }
    return position - start
  }

  // MARK: Texts

  private mutating func string() throws(JSONFault) -> String {
    position += 1
    let start = position
    while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: "\""):
        defer { position += 1 }
        return try text(bytes[start..<position])
      case UInt8(ascii: "\\"): return try escapedString(from: start)
      case 0..<0x20: throw JSONFault()
      default: position += 1
      }
    }
    throw JSONFault()
  }

  /// A string with escapes; the reader stands on the first one.
  private mutating func escapedString(from start: Int) throws(JSONFault) -> String {
    var output = Array(bytes[start..<position])
    while position < bytes.count {
      let character = bytes[position]
      position += 1
      switch character {
      case UInt8(ascii: "\""): return try text(output)
      case UInt8(ascii: "\\"): try escape(into: &output)
      case 0..<0x20: throw JSONFault()
      default: output.append(character)
      }
    }
    throw JSONFault()
  }

  private func text(_ utf8: some Collection<UInt8>) throws(JSONFault) -> String {
    guard let text = String(validating: utf8, as: UTF8.self) else { throw JSONFault() }
    return text
  }

  private mutating func escape(into output: inout [UInt8]) throws(JSONFault) {
    let letter = try current()
    position += 1
    switch letter {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): output.append(letter)
    case UInt8(ascii: "b"): output.append(0x08)
    case UInt8(ascii: "f"): output.append(0x0C)
    case UInt8(ascii: "n"): output.append(0x0A)
    case UInt8(ascii: "r"): output.append(0x0D)
    case UInt8(ascii: "t"): output.append(0x09)
    case UInt8(ascii: "u"): output.append(contentsOf: String(try escapedScalar()).utf8)
    default: throw JSONFault()
    }
  }

  private mutating func escapedScalar() throws(JSONFault) -> Unicode.Scalar {
    let first = try hexadecimal()
    guard JSONCodeUnit.isHighSurrogate(first) else { return Unicode.Scalar(first) ?? "\u{FFFD}" }
    guard bytes.count - position >= 6, bytes[position] == UInt8(ascii: "\\"), bytes[position + 1] == UInt8(ascii: "u")
    else { return "\u{FFFD}" }
    let behind = position
    position += 2
    let second = try hexadecimal()
    guard let scalar = JSONCodeUnit.scalar(high: first, low: second) else {
      // Not the other half, but a character of its own.
      position = behind
      return "\u{FFFD}"
    }
    return scalar
  }

  private mutating func hexadecimal() throws(JSONFault) -> UInt32 {
    guard bytes.count - position >= JSONCodeUnit.digitCount else { throw JSONFault() }
    var unit: UInt32 = 0
    for _ in 0..<JSONCodeUnit.digitCount {
      guard let next = JSONCodeUnit.appending(bytes[position], to: unit) else { throw JSONFault() }
      unit = next
      position += 1
    }
    return unit
  }
}
