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

/// An acknowledged message that leaves its mailbox.
package struct MailboxRemoval: Sendable, Equatable {
  package let place: MailboxPlace
  /// nil where nobody is told by this store: it is a notice, it came from a peer or from the account itself, or no
  /// mailbox of its sender has room.
  package let receipt: DueReceipt?
  package init(_ place: MailboxPlace, receipt: DueReceipt?) {
    self.place = place
    self.receipt = receipt
  }
}

/// A receipt that the removal of its message stores: from the device that the mailbox is of, to the account that sent
/// the message, for the message's time. The store takes all this from the message itself.
package struct DueReceipt: Sendable, Equatable {
  /// Devices of the sender, each once.
  package let devices: [DeviceID]
  /// One for all devices: each has a mailbox of its own.
  package let fingerprint: Fingerprint
  package init(to devices: [DeviceID], fingerprint: Fingerprint) {
    self.devices = devices
    self.fingerprint = fingerprint
  }
}

/// The state of a message in the mailbox that it was sent to, as far as the mailbox knows.
package enum MessageStanding: Sendable, Equatable {
  case unknown, queued, acknowledged
}
