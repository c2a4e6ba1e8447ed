// How values of ours stand in PostgreSQL's binary format.

import RelayCore

/// A value that a statement may bind.
protocol PostgresValue {
  static var postgresType: PostgresType { get }

  /// Appends its binary form, big-endian.
  /// - Returns: false for NULL; then nothing was appended.
  func append(to bytes: inout [UInt8]) -> Bool
}

/// The types of PostgreSQL that we bind, by their object identifiers (`pg_type.dat`); these never change.
enum PostgresType: Int32, Sendable {
  case boolean = 16
  case bytea = 17
  case bigint = 20
  case smallint = 21
  case integer = 23
  case text = 25
  case date = 1082
  case uuid = 2950
  case xid8 = 5069

  var name: StaticString {
    switch self {
    case .boolean: "boolean"
    case .bytea: "bytea"
    case .bigint: "bigint"
    case .smallint: "smallint"
    case .integer: "integer"
    case .text: "text"
    case .date: "date"
    case .uuid: "uuid"
    case .xid8: "xid8"
    }
  }

  var arrayName: StaticString {
    switch self {
    case .boolean: "boolean[]"
    case .bytea: "bytea[]"
    case .bigint: "bigint[]"
    case .smallint: "smallint[]"
    case .integer: "integer[]"
    case .text: "text[]"
    case .date: "date[]"
    case .uuid: "uuid[]"
    case .xid8: "xid8[]"
    }
  }
}

/// A text that a client made up: `bytea`, since PostgreSQL's `text` takes no NUL (`AccountSchema`).
struct PostgresOpaque: PostgresValue {
  let text: String

  static var postgresType: PostgresType { .bytea }
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(contentsOf: text.utf8)
    return true
  }
}

/// Days since 2000-01-01.
struct PostgresDate: PostgresValue {
  let days: Int32

  init(_ days: Int32) { self.days = days }

  static var postgresType: PostgresType { .date }
  func append(to bytes: inout [UInt8]) -> Bool { days.append(to: &bytes) }
}

/// The number of a transaction.
struct PostgresTransaction: PostgresValue {
  let number: UInt64

  init(_ number: UInt64) { self.number = number }

  static var postgresType: PostgresType { .xid8 }
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: number)
    return true
  }
}

extension Optional: PostgresValue where Wrapped: PostgresValue {
  static var postgresType: PostgresType { Wrapped.postgresType }
  func append(to bytes: inout [UInt8]) -> Bool {
    guard let self else { return false }
    return self.append(to: &bytes)
  }
}

extension PostgresValue where Self: FixedWidthInteger {
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: self)
    return true
  }
}

extension Int64: PostgresValue { static var postgresType: PostgresType { .bigint } }
extension Int32: PostgresValue { static var postgresType: PostgresType { .integer } }
extension Int16: PostgresValue { static var postgresType: PostgresType { .smallint } }

extension Bool: PostgresValue {
  static var postgresType: PostgresType { .boolean }
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(self ? 1 : 0)
    return true
  }
}

extension String: PostgresValue {
  static var postgresType: PostgresType { .text }
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(contentsOf: utf8)
    return true
  }
}

extension Array: PostgresValue where Element == UInt8 {
  static var postgresType: PostgresType { .bytea }
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(contentsOf: self)
    return true
  }
}

extension AccountNumber: PostgresValue {
  static var postgresType: PostgresType { .bigint }
  func append(to bytes: inout [UInt8]) -> Bool { column.append(to: &bytes) }
}

extension DeviceID: PostgresValue {
  static var postgresType: PostgresType { .integer }
  func append(to bytes: inout [UInt8]) -> Bool { value.append(to: &bytes) }
}

extension RelayName: PostgresValue {
  static var postgresType: PostgresType { .text }
  func append(to bytes: inout [UInt8]) -> Bool { text.append(to: &bytes) }
}

/// Milliseconds since 1970.
extension Timestamp: PostgresValue {
  static var postgresType: PostgresType { .bigint }
  func append(to bytes: inout [UInt8]) -> Bool { millis.append(to: &bytes) }
}

extension Fingerprint: PostgresValue {
  static var postgresType: PostgresType { .uuid }
  func append(to bytes: inout [UInt8]) -> Bool {
    bytes.append(bigEndian: high)
    bytes.append(bigEndian: low)
    return true
  }
}

/// As `PostgresStorage.tokens` sealed it.
extension StoredToken: PostgresValue {
  static var postgresType: PostgresType { .bytea }
  func append(to bytes: inout [UInt8]) -> Bool { self.bytes.append(to: &bytes) }
}

/// As `PendingCodes` made it.
extension StoredCode: PostgresValue {
  static var postgresType: PostgresType { .bytea }
  func append(to bytes: inout [UInt8]) -> Bool { self.bytes.append(to: &bytes) }
}

extension AccountNumber {
  /// How the number stands in every table. At most 15 digits: it always fits.
  var column: Int64 { Int64(truncatingIfNeeded: digits) }
}

extension Collection where Element: PostgresValue {
  /// Appends the form of `array_recv`: dimensions, a flag for NULLs, element type, count, lower bound; then each
  /// element with its length before it.
  func appendArray(to bytes: inout [UInt8]) {
    bytes.append(bigEndian: Int32(isEmpty ? 0 : 1))
    bytes.append(bigEndian: Int32(0))  // What `array_recv` ignores: it looks for NULLs itself.
    bytes.append(bigEndian: Element.postgresType.rawValue)
    guard !isEmpty else { return }
    bytes.append(bigEndian: Int32(truncatingIfNeeded: count))
    bytes.append(bigEndian: Int32(1))
    for value in self {
      let lengthStart = bytes.count
      bytes.append(bigEndian: Int32(-1))
      guard value.append(to: &bytes) else { continue }
      let length = UInt32(truncatingIfNeeded: bytes.count - lengthStart - 4)
      for index in 0..<4 { bytes[lengthStart + index] = UInt8(truncatingIfNeeded: length >> UInt32(24 - 8 * index)) }
    }
  }
}

extension [UInt8] {
  mutating func append(bigEndian value: some FixedWidthInteger) {
    Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
  }
}
