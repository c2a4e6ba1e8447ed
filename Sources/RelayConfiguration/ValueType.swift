// How the text of a value is read. File and environment give the same texts and are read by the same rules.

import RelayCore

/// A type of value: its name for the documents and the reading of its text.
struct ValueType<Value: Sendable>: Sendable {
  let name: String
  /// The bounds of a number, for the documents: `1 to 3650`.
  var bounds: String?
  /// Whether the file may give it as a list.
  var isList = false
  let parse: @Sendable (String) throws(Malformed) -> Value
}

/// A text that is no value of its type. Never holds the text: it may be a secret.
struct Malformed: Error {
  /// Completes "expects ...".
  let expected: String
  init(_ expected: String) { self.expected = expected }
}

extension ValueType where Value == String {
  static let text = ValueType(name: "text") { text throws(Malformed) in
    guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { throw Malformed("a line of text") }
    return text
  }
  /// Relative ones start at the working directory.
  static let path = ValueType(name: "path") { text throws(Malformed) in
    guard !text.isEmpty, !text.utf8.contains(0) else { throw Malformed("the path of a file or folder") }
    return text
  }
  static let host = ValueType(name: "host") { text throws(Malformed) in
    guard WebURL.isHost(text) else { throw Malformed("a host name or an address, without scheme or port") }
    return text
  }
}

extension ValueType where Value == Secret {
  static let secret = ValueType(name: "secret") { text throws(Malformed) in
    guard !text.isEmpty else { throw Malformed("a secret that is not empty") }
    return Secret(text)
  }
}

extension ValueType where Value == SecretBytes {
  static let encryptionKey = ValueType(name: "base64 key") { text throws(Malformed) in
    guard let bytes = Base64.decode(text), bytes.count == 32 else {
      throw Malformed("the base64 of 32 bytes, as `openssl rand -base64 32` prints it")
    }
    return SecretBytes(bytes)
  }
  static let hexKey = ValueType(name: "hex key") { text throws(Malformed) in
    let digits = text.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
    guard digits.count == text.utf8.count, digits.count % 2 == 0, digits.count >= 32 else {
      throw Malformed("the hex of 16 bytes or more, as `openssl rand -hex 32` prints it")
    }
    return SecretBytes(stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) })
  }
}

extension ValueType where Value == [OperatorToken] {
  /// Several are separated by commas or ends of lines.
  static let operatorTokens = ValueType(name: "tokens", isList: true) { text throws(Malformed) in
    var tokens: [OperatorToken] = []
    for part in text.split(whereSeparator: { $0 == "," || $0.isNewline }) {
      let words = part.trimmingPrefix { $0 == " " }.split(separator: ":", maxSplits: 1).map(String.init)
      guard words.count == 2, isTokenName(words[0]), isToken(words[1]), !tokens.contains(where: { $0.name == words[0] })
      else {
        throw Malformed(
          "NAME:TOKEN, comma-separated or a line each; names differ and are of a-z 0-9 -, tokens have 32 characters or more, "
            + "as `openssl rand -hex 32` prints them")
      }
      tokens.append(OperatorToken(name: words[0], token: Secret(words[1])))
    }
    guard !tokens.isEmpty else { throw Malformed("NAME:TOKEN, comma-separated or a line each") }
    return tokens
  }

  private static func isTokenName(_ text: String) -> Bool {
    (1...32).contains(text.utf8.count)
      && text.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
  }

  private static func isToken(_ text: String) -> Bool {
    (32...1024).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
  }
}

extension ValueType where Value == [AddressRange] {
  static let addressRanges = ValueType(name: "addresses", isList: true) { text throws(Malformed) in
    if text == "none" { return [] }
    let ranges = text.split(separator: ",").map { AddressRange(text: $0.trimmingPrefix { $0 == " " }) }
    guard !ranges.isEmpty, !ranges.contains(nil) else {
      throw Malformed("addresses or CIDR ranges, comma-separated, as in 127.0.0.1,10.0.0.0/8,fd00::/8")
    }
    return ranges.compactMap(\.self)
  }
}

extension ValueType where Value == [String]? {
  /// nil for all.
  static let globs = ValueType(name: "patterns", isList: true) { text throws(Malformed) in
    if text == "all" { return nil }
    let globs = text.split(separator: ",", omittingEmptySubsequences: false).map {
      String($0.trimmingPrefix { $0 == " " })
    }
    guard
      globs.allSatisfy({ glob in
        !glob.isEmpty && glob.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }
      })
    else {
      throw Malformed("`all`, or hosts with `*` and `?`, comma-separated, as in *.googleapis.com,*.mozilla.com")
    }
    return globs
  }
}

extension ValueType where Value == AllowedOrigins {
  static let origins = ValueType(name: "origins", isList: true) { text throws(Malformed) in
    switch text {
    case "none": return .unsaid
    case "all": return .all
    default:
      let origins = text.split(separator: ",", omittingEmptySubsequences: false).map { origin -> String? in
        let origin = String(origin.trimmingPrefix { $0 == " " })
        // As browsers write them.
        guard let url = WebURL(origin), url.path.isEmpty, !origin.hasSuffix("/") else { return nil }
        return url.text.lowercased()
      }
      guard !origins.contains(nil) else {
        throw Malformed(
          "`none`, `all`, or origins, comma-separated, as in https://app.example.org,https://localhost:8443")
      }
      return .listed(Set(origins.compactMap(\.self)))
    }
  }
}

extension ValueType where Value == RelayName {
  static let relayName = ValueType(name: "relay name") { text throws(Malformed) in
    guard let name = RelayName(text) else {
      throw Malformed("1 to 63 of a-z 0-9 - _ . beginning with a letter or digit")
    }
    return name
  }
}

extension ValueType where Value == Int {
  static let port = ValueType(name: "port") { text throws(Malformed) in
    guard let value = digits(text), value <= 65_535 else { throw Malformed("a port from 0 to 65535") }
    return value
  }
  static func whole(_ range: ClosedRange<Int>) -> Self {
    let bounds = "\(range.lowerBound) to \(range.upperBound)"
    return ValueType(name: "whole number", bounds: bounds) { text throws(Malformed) in
      guard let value = digits(text), range.contains(value) else { throw Malformed("a whole number from \(bounds)") }
      return value
    }
  }

  private static func digits(_ text: String) -> Int? {
    text.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? Int(text) : nil
  }
}

extension ValueType where Value == Double {
  static func decimal(_ range: ClosedRange<Double>) -> Self {
    let bounds = DecimalText.bounds(range)
    return ValueType(name: "decimal number", bounds: bounds) { text throws(Malformed) in
      guard let value = DecimalText.value(text), range.contains(value) else {
        throw Malformed("a decimal number from \(bounds)")
      }
      return value
    }
  }
}

extension ValueType where Value == Duration {
  static func seconds(_ range: ClosedRange<Double>) -> Self {
    let bounds = DecimalText.bounds(range)
    return ValueType(name: "seconds", bounds: bounds) { text throws(Malformed) in
      guard let value = DecimalText.value(text), range.contains(value) else {
        throw Malformed("seconds from \(bounds)")
      }
      return .milliseconds(Int64((value * 1000).rounded()))
    }
  }
  /// Whole numbers of a unit that the key's name says.
  static func whole(_ range: ClosedRange<Int>, of unit: Duration) -> Self {
    let number = ValueType<Int>.whole(range)
    return ValueType(name: number.name, bounds: number.bounds) { text throws(Malformed) in
      unit * (try number.parse(text))
    }
  }
}

extension ValueType where Value == Bool {
  static let boolean = ValueType(name: "true or false") { text throws(Malformed) in
    switch text.lowercased() {
    case "true", "yes", "on", "1": return true
    case "false", "no", "off", "0": return false
    default: throw Malformed("true or false")
    }
  }
}

extension ValueType where Value: CaseIterable & RawRepresentable, Value.RawValue == String {
  static func choice(_: Value.Type) -> Self {
    let names = Value.allCases.map(\.rawValue)
    return ValueType(name: names.joined(separator: ", ")) { text throws(Malformed) in
      guard let value = Value(rawValue: text) else {
        let near = Spelling.nearest(to: text, among: names).map { " (did you mean \($0)?)" } ?? ""
        throw Malformed("one of \(names.joined(separator: ", "))\(near)")
      }
      return value
    }
  }
}

/// Decimal numbers as people write them: digits with at most one point, no exponent, no sign.
enum DecimalText {
  static func value(_ text: String) -> Double? {
    guard let first = text.utf8.first, first != UInt8(ascii: ".") else { return nil }
    guard text.utf8.allSatisfy({ ($0 >= 0x30 && $0 <= 0x39) || $0 == UInt8(ascii: ".") }) else { return nil }
    return Double(text)
  }
  static func bounds(_ range: ClosedRange<Double>) -> String {
    "\(text(range.lowerBound)) to \(text(range.upperBound))"
  }
  static func text(_ value: Double) -> String { value == value.rounded() ? String(Int(value)) : String(value) }
}
