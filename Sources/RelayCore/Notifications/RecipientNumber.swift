/// The number that stands for one app on one device towards senders. Apps have no password: whoever knows the number
/// can act for the app.
package struct RecipientNumber: Sensitive, Sendable, Hashable, Comparable {
  package static let kind: StaticString = "recipient number"
  /// A number of at most 18 digits.
  package let value: Int64

  package init?(_ value: Int64) {
    guard (1...999_999_999_999_999_999).contains(value) else { return nil }
    self.value = value
  }

  /// - Returns: nil for anything but digits without a leading zero.
  package init?(text: some StringProtocol) {
    guard (1...18).contains(text.utf8.count), text.utf8.first != UInt8(ascii: "0"),
      text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let value = Int64(text)
    else { return nil }
    self.init(value)
  }

  /// For the wire.
  package var text: String { String(value) }
  package static func < (a: Self, b: Self) -> Bool { a.value < b.value }
}

/// The name of an account that sends device notifications: 1 to 64 of `A-Z a-z 0-9 . _ @ -`, compared exactly.
package struct NotificationUser: Sendable, Hashable, Comparable, CustomStringConvertible {
  package let text: String

  package init?(_ text: String) {
    guard (1...64).contains(text.utf8.count),
      text.utf8.allSatisfy({ byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "@"), UInt8(ascii: "-"): true
        default: false
        }
      })
    else { return nil }
    self.text = text
  }

  package var description: String { text }
  package static func < (a: Self, b: Self) -> Bool { a.text < b.text }
}
