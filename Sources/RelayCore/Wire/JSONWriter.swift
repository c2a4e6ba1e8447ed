/// Writes JSON straight into bytes. The caller keeps brackets paired; commas come by themselves.
package struct JSONWriter: Sendable {
  package private(set) var bytes: [UInt8] = []
  private var needsComma = false

  package init(capacity: Int = 256) { bytes.reserveCapacity(capacity) }

  package mutating func beginObject() { open(UInt8(ascii: "{")) }
  package mutating func endObject() { close(UInt8(ascii: "}")) }
  package mutating func beginArray() { open(UInt8(ascii: "[")) }
  package mutating func endArray() { close(UInt8(ascii: "]")) }

  /// - Parameter name: plain ASCII that needs no escape.
  package mutating func key(_ name: StaticString) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    bytes.append(contentsOf: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    bytes.append(UInt8(ascii: "\""))
    bytes.append(UInt8(ascii: ":"))
    needsComma = false
  }

  package mutating func null() { literal("null") }
  package mutating func boolean(_ value: Bool) { literal(value ? "true" : "false") }

  package mutating func integer(_ value: some BinaryInteger) {
    separate()
    bytes.append(contentsOf: String(value).utf8)
    needsComma = true
  }

  package mutating func string(_ value: String?) {
    guard let value else { return null() }
    separate()
    bytes.append(UInt8(ascii: "\""))
    for byte in value.utf8 { append(escaping: byte) }
    bytes.append(UInt8(ascii: "\""))
    needsComma = true
  }

  /// The base64 of `value` as a string; nil writes `null`.
  package mutating func base64(_ value: (some Collection<UInt8>)?, padded: Bool) {
    guard let value else { return null() }
    separate()
    bytes.append(UInt8(ascii: "\""))
    Base64.append(value, padded: padded, to: &bytes)
    bytes.append(UInt8(ascii: "\""))
    needsComma = true
  }

  private mutating func append(escaping byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      bytes.append(UInt8(ascii: "\\"))
      bytes.append(byte)
    case 0..<0x20:
      bytes.append(contentsOf: "\\u00".utf8)
      bytes.append(byte < 0x10 ? 0x30 : 0x31)
      let low = byte & 15
      bytes.append(low < 10 ? 0x30 + low : 0x61 + low - 10)
    default: bytes.append(byte)
    }
  }

  private mutating func literal(_ text: String) {
    separate()
    bytes.append(contentsOf: text.utf8)
    needsComma = true
  }

  private mutating func open(_ bracket: UInt8) {
    separate()
    bytes.append(bracket)
    needsComma = false
  }

  private mutating func close(_ bracket: UInt8) {
    bytes.append(bracket)
    needsComma = true
  }

  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
  }
}
