import RelayCore

/// The word to the sender of an acknowledged message that it has arrived (reference 1.9).
struct DeliveryReceipt: Sendable, Equatable {
  /// The message's timestamp.
  let timestamp: Timestamp
  /// The device that has received it.
  let source: DeviceAddress
  /// The account that sent it.
  let destination: AccountNumber
  /// The peer that the sender is at; nil for ours.
  let relay: RelayName?

  /// - Returns: nil for what is not receipted: a notice, and an account's messages to itself.
  init?(for acknowledged: Envelope) {
    guard !acknowledged.type.isNotice, acknowledged.source.account != acknowledged.destination.account else {
      return nil
    }
    timestamp = acknowledged.timestamp
    source = acknowledged.destination
    destination = acknowledged.source.account
    relay = acknowledged.relay
  }
}

/// The envelopes of a receipt for an account of this relay, before the removal of its message stores them.
struct PreparedReceipt: Sendable {
  /// One for each device. The room of each is taken.
  let envelopes: [Envelope]
  /// Devices whose mailboxes are full.
  let refusedCount: Int

  /// - Returns: nil when there is nothing to store.
  var due: DueReceipt? {
    envelopes.first.map { DueReceipt(to: envelopes.map(\.destination.device), fingerprint: $0.fingerprint) }
  }
}
