/// An account's name among operators: sixteen bytes that look like a UUID and tell the number to nobody without the
/// relay's key (`AccountHandles`). It is the same for as long as the relay has that key, whether or not the number has
/// an account.
package struct AccountHandle: Sendable, Hashable {
  /// 16 bytes.
  package let bytes: [UInt8]

  /// - Returns: nil unless there are 16.
  package init?(bytes: [UInt8]) {
    guard bytes.count == Self.byteCount else { return nil }
    self.bytes = bytes
  }

  /// Reads `8-4-4-4-12` hexadecimal digits, of either case.
  package init?(_ text: some StringProtocol) {
    var bytes: [UInt8] = []
    var high: UInt8?
    for (index, unit) in text.utf8.enumerated() {
      guard index < Self.textBytes else { return nil }
      if Self.dashes.contains(index) {
        guard unit == UInt8(ascii: "-") else { return nil }
        continue
      }
      guard let digit = Self.digit(unit) else { return nil }
      if let former = high {
        bytes.append(former << 4 | digit)
        high = nil
      } else {
        high = digit
      }
    }
    guard high == nil else { return nil }
    self.init(bytes: bytes)
  }

  package var text: String {
    var text = ""
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text += "-" }
      text += (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
    return text
  }

  private static func digit(_ unit: UInt8) -> UInt8? {
    switch unit {
    case 0x30...0x39: unit - 0x30
    case 0x41...0x46: unit - 0x41 + 10
    case 0x61...0x66: unit - 0x61 + 10
    default: nil
    }
  }

  package static let byteCount = 16
  private static let textBytes = 36
  private static let dashes: Set = [8, 13, 18, 23]
}
