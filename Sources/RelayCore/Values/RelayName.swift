/// The name of a relay as its peers know it: 1 to 63 of `a-z 0-9 - _ .`, beginning with a letter or digit.
package struct RelayName: Sendable, Hashable, Comparable, CustomStringConvertible {
  package let text: String

  package init?(_ text: some StringProtocol) {
    let utf8 = text.utf8
    guard (1...63).contains(utf8.count), let first = utf8.first, Self.isAlphanumeric(first) else { return nil }
    guard utf8.allSatisfy({ Self.isAlphanumeric($0) || $0 == 0x2D || $0 == 0x5F || $0 == 0x2E }) else { return nil }
    self.text = String(text)
  }
  package var description: String { text }
  package static func < (a: Self, b: Self) -> Bool { a.text < b.text }

  private static func isAlphanumeric(_ byte: UInt8) -> Bool {
    (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte)
  }
}
