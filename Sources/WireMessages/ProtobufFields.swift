/// The fields of a serialised protobuf message, one after the other, without the groups of old.
///
/// To count what a message of others would make before it is made: two bytes can become a hundred of memory.
package struct ProtobufFields {
  package struct Field {
    package let number: UInt64
    /// The content of a field with a length: bytes, a string, or a message; nil for numbers.
    package let content: ArraySlice<UInt8>?
  }

  private var rest: ArraySlice<UInt8>
  private var isBroken = false

  package init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

  /// Whether the message ended where its last field did.
  package var isWhole: Bool { !isBroken && rest.isEmpty }

  /// - Returns: nil at the end, and where the bytes are no field.
  package mutating func next() -> Field? {
    guard !rest.isEmpty, !isBroken else { return nil }
    guard let field = read() else {
      isBroken = true
      return nil
    }
    return field
  }

  private mutating func read() -> Field? {
    guard let tag = varint() else { return nil }
    let number = tag >> 3
    switch tag & 7 {
    case 0: return varint().map { _ in Field(number: number, content: nil) }
    case 1: return take(8).map { _ in Field(number: number, content: nil) }
    case 2: return varint().flatMap { take($0) }.map { Field(number: number, content: $0) }
    case 5: return take(4).map { _ in Field(number: number, content: nil) }
    default: return nil
    }
  }

  private mutating func take(_ count: UInt64) -> ArraySlice<UInt8>? {
    guard count <= UInt64(rest.count) else { return nil }
    defer { rest = rest.dropFirst(Int(count)) }
    return rest.prefix(Int(count))
  }

  /// At most 10 bytes.
  private mutating func varint() -> UInt64? {
    var value: UInt64 = 0
    for shift in stride(from: UInt64(0), to: 70, by: 7) {
      guard let byte = rest.popFirst() else { return nil }
      value |= UInt64(byte & 0x7F) << shift
      if byte < 0x80 { return value }
    }
    return nil
  }
}
