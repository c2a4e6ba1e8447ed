extension RelayConfiguration {
  package struct Messages: Sendable, Equatable {
    /// Whole days.
    package let retention: Duration
    package let mailboxMax: Int
    package let mailboxSenderMax: Int
    package let pollInterval: Duration
    package let steadyPollInterval: Duration

    init(_ keys: inout ConfigurationReader) {
      retention = keys.value(
        "messages.retention-days", .whole(1...3650, of: .seconds(86_400)), default: "30",
        "How long a message, or a receipt, is kept that its device does not acknowledge.")
      mailboxMax = keys.value(
        "messages.mailbox-max", .whole(1...1_000_000_000), default: "5000",
        "Messages that may wait for one device; further ones are refused with 413, and none that was accepted is dropped."
      )
      mailboxSenderMax = keys.value(
        "messages.mailbox-sender-max", .whole(1...1_000_000_000), default: "2000",
        "Messages of one sender among them.")
      pollInterval = keys.value(
        "messages.poll-seconds", .seconds(0.1...3600), default: "25",
        "How long a connected device that nothing woke waits before its mailbox is read all the same, while wake-ups may "
          + "be lost: the bound of a delay when Redis dies.")
      steadyPollInterval = keys.value(
        "messages.poll-steady-seconds", .seconds(0.1...3600), default: "600",
        "The same while Redis has brought all wake-ups without a break; no shorter than `messages.poll-seconds`. After a "
          + "break every mailbox is read at once.")
    }
  }

  package struct PreKeys: Sendable, Equatable {
    package let verifiesSignatures: Bool

    init(_ keys: inout ConfigurationReader) {
      verifiesSignatures = keys.value(
        "keys.verify-signatures", .boolean, default: "true",
        "Refuses signed prekeys that the account's identity key did not sign.")
    }
  }
}
