/// A live connection's request to its mailbox.
package struct MailboxRead: Sendable, Equatable {
  package let mailbox: DeviceAddress
  /// Sequences of what the connection holds already, delivered and not acknowledged; in no order.
  package let held: [Int64]
  /// 1 or more.
  package let limit: Int
  package init(_ mailbox: DeviceAddress, held: [Int64], limit: Int) {
    self.mailbox = mailbox
    self.held = held
    self.limit = limit
  }
}

/// The place of an envelope in a mailbox.
package struct MailboxPlace: Sendable, Hashable {
  package let mailbox: DeviceAddress
  /// Unique among all mailboxes of a store.
  package let sequence: Int64
  package init(_ mailbox: DeviceAddress, sequence: Int64) {
    self.mailbox = mailbox
    self.sequence = sequence
  }
}
