// Parameters of a query string and of a form.

/// The parameters of a request, by their exact names. The body goes before the query string, and in each the first of
/// those that repeat.
struct FormParameters: Sendable {
  enum Value: Sendable, Equatable {
    case absent
    case empty
    case text(String)
    /// No UTF-8, or a broken escape.
    case malformed
  }

  /// All that any method knows.
  private static let known: Set<String> = [
    "user", "pwd", "message", "recipientid", "spid", "key", "lastmsgno", "sentafter", "clean", "recipients",
    "delaywhileidle", "collapsekey", "timetolive", "restrictedpackagename", "lastMsgId",
  ]

  private var values: [String: Value] = [:]

  init(query: String, body: [UInt8] = []) {
    add(body[...])
    add(Array(query.utf8)[...])
  }

  subscript(_ name: String) -> Value { values[name] ?? .absent }

  /// The value without spaces at both ends: of numbers and codes.
  func trimmed(_ name: String) -> Value {
    guard case .text(let text) = self[name] else { return self[name] }
    let trimmed = text.trimmingSpaces
    return trimmed.isEmpty ? .empty : .text(String(trimmed))
  }

  private mutating func add(_ form: ArraySlice<UInt8>) {
    for pair in form.split(separator: UInt8(ascii: "&")) {
      let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
      guard let name = Self.decode(pair[..<equals]), Self.known.contains(name), values[name] == nil else { continue }
      let value = pair[equals...].dropFirst()
      values[name] = value.isEmpty ? .empty : Self.decode(value).map { .text($0) } ?? .malformed
    }
  }

  private static func decode(_ encoded: ArraySlice<UInt8>) -> String? {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(encoded.count)
    var rest = encoded.makeIterator()
    while let byte = rest.next() {
      switch byte {
      case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.next().flatMap(digit), let low = rest.next().flatMap(digit) else { return nil }
        bytes.append(high << 4 | low)
      default: bytes.append(byte)
      }
    }
    return String(validating: bytes, as: UTF8.self)
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x41...0x46: byte - 0x41 + 10
    case 0x61...0x66: byte - 0x61 + 10
    default: nil
    }
  }
}

extension StringProtocol {
  /// Without spaces at both ends; other white space stays.
  var trimmingSpaces: SubSequence {
    var rest = self[...]
    while rest.unicodeScalars.first == " " { rest = rest.dropFirst(1) }
    while rest.unicodeScalars.last == " " { rest = rest.dropLast(1) }
    return rest
  }
}

/// Writes `application/x-www-form-urlencoded`.
struct FormWriter {
  private(set) var text = ""

  mutating func add(_ name: String, _ value: String) {
    if !text.isEmpty { text += "&" }
    text += name + "="
    for byte in value.utf8 {
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
        UInt8(ascii: "_"):
        text.unicodeScalars.append(Unicode.Scalar(byte))
      case UInt8(ascii: " "): text += "+"
      default:
        text += "%"
        text.unicodeScalars.append(Self.digit(byte >> 4))
        text.unicodeScalars.append(Self.digit(byte & 15))
      }
    }
  }

  private static func digit(_ value: UInt8) -> Unicode.Scalar {
    Unicode.Scalar(value < 10 ? 0x30 + value : 0x41 + value - 10)
  }
}
