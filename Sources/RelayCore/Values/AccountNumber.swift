/// An account's name: an E.164 number with its leading `+` (reference 0.3, 1.4).
///
/// Held as the integer of its digits: it keys every table and costs no allocation. Never begins with 0,
/// since no country code does.
package struct AccountNumber: Sensitive, Sendable, Hashable, Comparable {
  package static let kind: StaticString = "number"
  /// The digits after the `+`, 1...999_999_999_999_999.
  package let digits: UInt64

  /// Reads `+` followed by 10 to 15 digits, or by one of four prefixes and six digits (reference 1.4).
  /// - Returns: nil for anything else.
  package init?(e164 text: some StringProtocol) {
    var digits: UInt64 = 0
    var count = 0
    var utf8 = text.utf8.makeIterator()
    guard utf8.next() == UInt8(ascii: "+") else { return nil }
    while let byte = utf8.next() {
      guard byte >= 0x30, byte <= 0x39, count < Self.digitsMax else { return nil }
      digits = digits * 10 + UInt64(byte - 0x30)
      count += 1
      if count == 1, digits == 0 { return nil }
    }
    let isShort = count == 9 && Self.shortPrefixes.contains(digits / 1_000_000)
    guard count >= 10 || isShort else { return nil }
    self.digits = digits
  }

  /// A number that a store returned. - Returns: nil when the integer is no number.
  package init?(digits: Int64) {
    guard digits > 0, digits <= 999_999_999_999_999 else { return nil }
    self.digits = UInt64(digits)
  }

  /// The wire form, `+` and digits.
  package var e164: String { "+\(digits)" }

  package static func < (a: Self, b: Self) -> Bool { a.digits < b.digits }

  private static let digitsMax = 15
  /// Countries with six-digit numbers that the API lets through (reference 1.4).
  private static let shortPrefixes: Set<UInt64> = [298, 240, 687, 689]
}
