// The bound values of one statement, in PostgreSQL's binary format.

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

  /// Calls `fill` to append the values of a text that is made at run time, in the order of their places.
  init(_ fill: (inout PostgresParameters) -> Void) { fill(&self) }
}

extension PostgresParameters {
  mutating func reserve(_ count: Int) { bytes.reserveCapacity(count) }

  /// Appends one value.
  /// - Parameter write: appends its binary form. false: NULL, and it appended nothing.
  mutating func append(_ write: (inout [UInt8]) -> Bool) {
    let start = bytes.count
    fields.append(Field(start: start, length: write(&bytes) ? bytes.count - start : nil))
  }

  mutating func append(_ others: PostgresParameters) {
    let start = bytes.count
    bytes += others.bytes
    fields += others.fields.map { Field(start: start + $0.start, length: $0.length) }
  }
}
