// The bound values of one statement, in PostgreSQL's binary format.

import RelayCore

/// All values of a statement in one buffer: one allocation however many there are.
struct PostgresParameters: Sendable {
  /// The values one behind the other, big-endian.
  private(set) var bytes: [UInt8] = []
  private(set) var fields: [Field] = []

  struct Field: Sendable {
    let start: Int
    /// nil for NULL.
    let length: Int?
  }

  static let none = PostgresParameters { _ in }

  /// Calls `fill` to add the values for `$1`, `$2`, ... in this order.
  init(reserving capacity: Int = 0, _ fill: (inout PostgresParameters) -> Void) {
    bytes.reserveCapacity(capacity)
    fill(&self)
  }

  mutating func add(bigint value: Int64?) {
    guard let value else { return addNull() }
    field { $0.append(bigEndian: value) }
  }
  mutating func add(integer value: Int32?) {
    guard let value else { return addNull() }
    field { $0.append(bigEndian: value) }
  }
  mutating func add(smallint value: Int16) { field { $0.append(bigEndian: value) } }
  /// Days since 2000-01-01.
  mutating func add(date value: Int32) { add(integer: value) }
  mutating func add(boolean value: Bool?) {
    guard let value else { return addNull() }
    field { $0.append(value ? 1 : 0) }
  }

  mutating func add(text value: String?) {
    guard let value else { return addNull() }
    field { $0.append(contentsOf: value.utf8) }
  }

  mutating func add(bytea value: (some Collection<UInt8>)?) {
    guard let value else { return addNull() }
    field { $0.append(contentsOf: value) }
  }

  /// A client's text, see `AccountSchema`.
  mutating func add(opaque value: String?) { add(bytea: value?.utf8) }

  mutating func add(bigints values: some Collection<Int64>) {
    array(of: .bigint, values) { $0.append(bigEndian: $1) }
  }
  mutating func add(optionalBigints values: some Collection<Int64?>) {
    array(of: .bigint, values) { $0.append(bigEndian: $1) }
  }
  mutating func add(integers values: some Collection<Int32>) {
    array(of: .integer, values) { $0.append(bigEndian: $1) }
  }
  mutating func add(smallints values: some Collection<Int16>) {
    array(of: .smallint, values) { $0.append(bigEndian: $1) }
  }
  mutating func add(booleans values: some Collection<Bool>) {
    array(of: .boolean, values) { $0.append($1 ? 1 : 0) }
  }
  mutating func add(texts values: some Collection<String?>) {
    array(of: .text, values) { $0.append(contentsOf: $1.utf8) }
  }
  mutating func add(byteas values: some Collection<[UInt8]?>) {
    array(of: .bytea, values) { $0.append(contentsOf: $1) }
  }
  mutating func add(uuids values: some Collection<Fingerprint>) {
    array(of: .uuid, values) {
      $0.append(bigEndian: $1.high)
      $0.append(bigEndian: $1.low)
    }
  }
  mutating func add(uuid value: Fingerprint) {
    field {
      $0.append(bigEndian: value.high)
      $0.append(bigEndian: value.low)
    }
  }

  /// An account number as every table holds it.
  mutating func add(account: AccountNumber) { add(bigint: account.column) }
  mutating func add(device: DeviceID) { add(integer: device.value) }
  /// As `PostgresStorage.tokens` sealed it.
  mutating func add(token: StoredToken) { add(bytea: token.bytes) }
  mutating func add(tokens: some Collection<StoredToken>) { add(byteas: tokens.lazy.map(\.bytes)) }
  /// As `PendingCodes` made it.
  mutating func add(code: StoredCode) { add(bytea: code.bytes) }
  /// Two values, both NULL for nil.
  mutating func add(password: PasswordHash?) {
    add(bytea: password?.salt)
    add(bytea: password?.hash)
  }
}

extension PostgresParameters {
  mutating func reserve(_ count: Int) { bytes.reserveCapacity(count) }

  /// Appends one value.
  /// - Parameter write: appends its binary form. false: NULL, and it appended nothing.
  mutating func append(_ write: (inout [UInt8]) -> Bool) {
    let start = bytes.count
    fields.append(Field(start: start, length: write(&bytes) ? bytes.count - start : nil))
  }
}

extension PostgresParameters {
  /// Object identifiers of the built-in types (`pg_type.dat`); they never change.
  private enum ElementType: Int32 {
    case boolean = 16
    case bytea = 17
    case bigint = 20
    case smallint = 21
    case integer = 23
    case text = 25
    case uuid = 2950
  }

  private mutating func addNull() { fields.append(Field(start: bytes.count, length: nil)) }

  private mutating func field(_ write: (inout [UInt8]) -> Void) {
    let start = bytes.count
    write(&bytes)
    fields.append(Field(start: start, length: bytes.count - start))
  }

  /// The form of `array_recv`: dimensions, a flag for NULLs, element type, count, lower bound; then each element with
  /// its length before it.
  private mutating func array<Values: Collection, Element>(
    of type: ElementType, _ values: Values, _ write: (inout [UInt8], Element) -> Void
  ) where Values.Element == Element? {
    field { bytes in
      Self.header(of: type, count: values.count, into: &bytes)
      for value in values {
        let lengthStart = bytes.count
        bytes.append(bigEndian: Int32(-1))
        guard let value else { continue }
        write(&bytes, value)
        let length = UInt32(truncatingIfNeeded: bytes.count - lengthStart - 4)
        for index in 0..<4 { bytes[lengthStart + index] = UInt8(truncatingIfNeeded: length >> UInt32(24 - 8 * index)) }
      }
    }
  }

  private mutating func array<Values: Collection, Element>(
    of type: ElementType, _ values: Values, _ write: (inout [UInt8], Element) -> Void
  ) where Values.Element == Element {
    array(of: type, values.lazy.map { Optional($0) }, write)
  }

  private static func header(of type: ElementType, count: Int, into bytes: inout [UInt8]) {
    bytes.append(bigEndian: Int32(count == 0 ? 0 : 1))
    bytes.append(bigEndian: Int32(0))  // What `array_recv` ignores: it looks for NULLs itself.
    bytes.append(bigEndian: type.rawValue)
    guard count > 0 else { return }
    bytes.append(bigEndian: Int32(truncatingIfNeeded: count))
    bytes.append(bigEndian: Int32(1))
  }
}
