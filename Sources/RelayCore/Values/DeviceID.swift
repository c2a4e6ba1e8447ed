/// One endpoint of an account; 1 is the master device (reference 0.3).
package struct DeviceID: Sendable, Hashable, Comparable, CustomStringConvertible {
  package static let master = DeviceID(unchecked: 1)
  /// 1...Int32.max.
  package let value: Int32

  package init?(_ value: Int64) {
    guard value >= 1, value <= Int64(Int32.max) else { return nil }
    self.value = Int32(value)
  }
  package init?(text: some StringProtocol) {
    guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let value = Int64(text) else { return nil }
    self.init(value)
  }
  private init(unchecked value: Int32) { self.value = value }

  package var description: String { String(value) }
  package static func < (a: Self, b: Self) -> Bool { a.value < b.value }
}

/// A device by its account: the address of one mailbox.
package struct DeviceAddress: Sensitive, Sendable, Hashable {
  package static let kind: StaticString = "device"
  package let account: AccountNumber
  package let device: DeviceID
  package init(_ account: AccountNumber, _ device: DeviceID) {
    self.account = account
    self.device = device
  }
}
